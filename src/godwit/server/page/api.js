// Calls to the server. A 401 asks for a token, which stays in this tab only.

let token = sessionStorage.getItem("godwit-token") || "";

async function askForToken() {
  const dialog = document.querySelector("#login");
  if (!dialog.open) dialog.showModal();
  await new Promise((done) => dialog.addEventListener("close", done, { once: true }));
  token = document.querySelector("#token").value;
  sessionStorage.setItem("godwit-token", token);
}

export class Refused extends Error {}

export async function call(method, path, body) {
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const response = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  if (response.status === 401) {
    await askForToken();
    return call(method, path, body);
  }
  const found = await response.json();
  if (!response.ok) {
    const told = found.detail || found;
    throw new Refused([told.message, told.place && `at: ${told.place}`, told.remedy && `remedy: ${told.remedy}`].filter(Boolean).join("\n"));
  }
  return found;
}

// Server-sent events; the browser connects again by itself when the connection is lost.
export function follow(path, event, told, lost) {
  const source = new EventSource(token ? `${path}?token=${encodeURIComponent(token)}` : path);
  source.addEventListener(event, (message) => told(JSON.parse(message.data)));
  source.onerror = lost || (() => {});
  return source;
}
