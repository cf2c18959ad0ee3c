// Signs in by the one-time token behind the # of the address. Passwords need no script.
const message = document.querySelector("#message");
const password = document.querySelector("#password");
const link = document.querySelector("#link");
const next = document.querySelector("main").dataset.next;

const token = location.hash.slice(1);
if (token) {
  // It works once, so a mere look at the page must not use it up; and it must not stay in the history.
  history.replaceState(null, "", location.pathname + location.search);
  message.textContent = "This link signs you in once.";
  password.hidden = true;
  link.hidden = false;
  link.querySelector("button").focus();
}

link.addEventListener("submit", async (event) => {
  event.preventDefault();
  const answer = await fetch("/api/v1/session/link", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ token }),
  });
  if (answer.ok) return location.assign(next);
  const told = await answer.json();
  message.textContent = `${told.detail}. ${told.hint}.`;
  message.className = "problem";
  password.hidden = false;
  link.hidden = true;
});
