// Signs in with the one-time token after the # of the address. Passwords need no script.
const sentence = (text) => `${text[0].toUpperCase()}${text.slice(1)}.`;
const message = document.querySelector("#message");
const password = document.querySelector("#password");
const link = document.querySelector("#link");
const next = document.querySelector("main").dataset.next;
let token = "";

// A token works once, so opening the page must not use it up; and it must not stay in the history.
function offerLink() {
  if (location.hash.length < 2) return;
  token = location.hash.slice(1);
  history.replaceState(null, "", location.pathname + location.search);
  message.textContent = "This link signs you in once.";
  message.className = "";
  password.hidden = true;
  link.hidden = false;
  link.querySelector("button").focus();
}

offerLink();
// A link that is pasted into a tab with this page changes only the part after the #, and loads nothing.
addEventListener("hashchange", offerLink);

link.addEventListener("submit", async (event) => {
  event.preventDefault();
  const answer = await fetch("/api/v1/session/link", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ token }),
  });
  if (answer.ok) return location.assign(next);
  const problem = await answer.json();
  message.textContent = [problem.detail, problem.hint].map(sentence).join(" ");
  message.className = "problem";
  password.hidden = false;
  link.hidden = true;
});
