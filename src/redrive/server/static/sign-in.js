// Signs in by name and password, or by the one-time token behind the # of the address.
const message = document.querySelector("#message");
const password = document.querySelector("#password");
const link = document.querySelector("#link");

const token = location.hash.slice(1);
if (token) {
  // It works once, so a mere look at the page must not use it up; and it must not stay in the history.
  history.replaceState(null, "", location.pathname);
  message.textContent = "This link signs you in once.";
  password.hidden = true;
  link.hidden = false;
  link.querySelector("button").focus();
}

async function signIn(path, body) {
  const answer = await fetch(path, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
  const told = await answer.json();
  if (!answer.ok) {
    message.textContent = `${told.detail}. ${told.hint}`;
    password.hidden = false;
    link.hidden = true;
    return;
  }
  message.textContent = `You are signed in as ${told.name} (${told.role} of ${told.org}).`;
  password.hidden = link.hidden = true;
  document.querySelector("#done").hidden = false;
}

password.addEventListener("submit", (event) => {
  event.preventDefault();
  const form = new FormData(password);
  signIn("/api/v1/session", { name: form.get("name"), password: form.get("password") });
});
link.addEventListener("submit", (event) => {
  event.preventDefault();
  signIn("/api/v1/session/link", { token });
});
