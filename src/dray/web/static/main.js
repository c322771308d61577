// The frame of the page: sign-in, menu, theme, and the view that the address names.
import { session } from "./api.js";
import { html, render, useEffect, useRef, useState } from "./html.js";
import { followLinks, link, navigate, useRoute } from "./router.js";
import { SignIn } from "./sign_in.js";
import { onSessionEnd } from "./stream.js";
import { ThemeButton } from "./theme.js";
import { VIEWS } from "./views.js";

function Menu({ views, current }) {
  return html`<nav aria-label="Views"><ul class="menu">
    ${views.map((view) => html`<li key=${view.name}>
      <a href=${link(view.name)} aria-current=${view.name === current ? "page" : undefined}>${view.title}</a>
    </li>`)}
  </ul></nav>`;
}

function useComponent(view) {
  const [loaded, setLoaded] = useState({ name: "", component: null, failed: false });
  useEffect(() => {
    let current = true;
    view?.load().then(
      (module) => current && setLoaded({ name: view.name, component: module.view.component, failed: false }),
      () => current && setLoaded({ name: view.name, component: null, failed: true }),
    );
    return () => { current = false; };
  }, [view]);
  return loaded.name === view?.name ? loaded : { component: null, failed: false };
}

function Frame({ viewer, onSignOut }) {
  const route = useRoute();
  const views = VIEWS.filter((view) => viewer.views.includes(view.name));
  const view = views.find((each) => each.name === route.view);
  const { component: Component, failed } = useComponent(view);
  const main = useRef(null);
  useEffect(() => {
    if (!view && views.length) navigate(link(views[0].name), { replace: true });
    document.title = view ? `${view.title} · ${viewer.cluster} · dray` : "dray";
  }, [view]);
  return html`
    <a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); main.current.focus(); }}>Skip to content</a>
    <header class="bar">
      <a class="brand" href=${link(views[0]?.name || "")}><img src="/ui/static/icon.svg" alt="" width="22" height="22" />dray</a>
      <${Menu} views=${views} current=${view?.name} />
      <div class="bar-end">
        <span class="viewer" title=${`You are signed in as ${viewer.user}`}>${viewer.user}</span>
        <${ThemeButton} />
        <button type="button" class="quiet" onClick=${onSignOut}>Sign out</button>
      </div>
    </header>
    <main id="main" tabindex="-1" ref=${main}>
      ${Component ? html`<${Component} route=${route} viewer=${viewer} />`
        : html`<p class="loading" role="status">${failed ? "This view could not be loaded. Load the page again." : "Loading…"}</p>`}
    </main>`;
}

function App() {
  const [viewer, setViewer] = useState(null);
  const [problem, setProblem] = useState("");
  useEffect(() => {
    onSessionEnd((text) => { setProblem(text); setViewer(false); });
    // Some servers know the viewer by the connection: then no token is needed.
    session.read().catch(() => session.begin({})).then(setViewer, () => setViewer(false));
  }, []);
  const signOut = () => session.end().finally(() => { setProblem("You have signed out."); setViewer(false); });
  if (viewer === null) return html`<p class="loading" role="status">Loading…</p>`;
  if (!viewer) return html`<${SignIn} problem=${problem} onSignIn=${(found) => { setProblem(""); setViewer(found); }} />`;
  return html`<${Frame} viewer=${viewer} onSignOut=${signOut} />`;
}

const root = document.getElementById("app");
followLinks(root);
root.textContent = "";
render(html`<${App} />`, root);
