// Calls to the server. A 401 asks for a token, which stays in this tab only.

let token = sessionStorage.getItem("godwit-token") || "";
let asking = null;

function askForToken() {
  asking = asking || new Promise((done) => {
    const dialog = document.querySelector("#login");
    dialog.addEventListener("close", () => {
      token = document.querySelector("#token").value;
      sessionStorage.setItem("godwit-token", token);
      asking = null;
      done();
    }, { once: true });
    dialog.showModal();
  });
  return asking;
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

// Server-sent events, connected again when the connection is lost or the server has let a slow subscriber go. `back` is
// called then: what came meanwhile must be read.
export function follow(path, event, told, back = () => {}) {
  let source = null;
  let timer = null;
  let lost = false;
  const open = () => {
    source = new EventSource(token ? `${path}?token=${encodeURIComponent(token)}` : path);
    source.onopen = () => { if (lost) back(); lost = false; };
    source.addEventListener(event, (message) => told(JSON.parse(message.data)));
    source.addEventListener("lagged", again);
    source.onerror = again;
  };
  const again = () => {
    lost = true;
    source.close();
    clearTimeout(timer);
    timer = setTimeout(open, 1000);
  };
  open();
  return { close: () => { clearTimeout(timer); source.close(); } };
}
