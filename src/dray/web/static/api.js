// Requests to the server of the page. The header proves that the page itself sends them.
const HEADERS = { "X-Dray-Page": "1" };

export class Failure extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

async function send(method, path, body) {
  let response;
  try {
    response = await fetch(`/ui/${path}`, {
      method,
      headers: body === undefined ? HEADERS : { ...HEADERS, "Content-Type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
      credentials: "same-origin",
    });
  } catch {
    throw new Failure(0, "The server does not answer. It may have stopped.");
  }
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new Failure(response.status, answer.error || `The server answered ${response.status}.`);
  return answer;
}

export const session = {
  read: () => send("GET", "session"),
  begin: (credential) => send("POST", "session", credential),
  end: () => send("DELETE", "session"),
};

// Asks the server side of a view: call("try", "plan", { manifest }).
export const call = (view, name, body = {}) => send("POST", `call/${view}/${name}`, body);

export const openStream = (view, query, signal) =>
  fetch(`/ui/stream/${view}${query ? `?${query}` : ""}`, { headers: HEADERS, credentials: "same-origin", signal });
