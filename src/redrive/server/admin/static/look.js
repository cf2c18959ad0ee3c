// Theme and time zone, stored in a cookie that contains nothing else.
const form = document.querySelector("form[data-look]");
const zone = form?.elements.zone;
const local = Intl.DateTimeFormat().resolvedOptions().timeZone;

if (zone && local && ![...zone.options].some((option) => option.value === local)) zone.add(new Option(local, local));

form?.addEventListener("change", () => {
  const value = encodeURIComponent(`${form.elements.theme.value}|${zone.value}`);
  const secure = location.protocol === "https:" ? "; Secure" : "";
  document.cookie = `redrive_look=${value}; Path=/app; Max-Age=31536000; SameSite=Lax${secure}`;
  location.reload();
});
