// On a phone, the navigation is a row that scrolls: show the entry of this page.
const [places, here] = [document.querySelector(".places"), document.querySelector(".places [aria-current]")];
if (here) places.scrollLeft = here.offsetLeft - places.offsetLeft - (places.clientWidth - here.clientWidth) / 2;
