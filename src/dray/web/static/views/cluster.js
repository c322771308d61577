// The cluster: a map of racks, nodes and devices as they are wired, and the same as a list.
import { html, useEffect, useMemo, useRef, useState } from "../html.js";
import { Categories, Colouring, MODES } from "../cluster/colouring.js";
import { ClusterMap } from "../cluster/map.js";
import { Panel, holderText } from "../cluster/panel.js";
import { ClusterStore, NODE_STATES } from "../cluster/store.js";
import { Legend } from "../parts/bars.js";
import { Choice, FilterBox, matches, useChoice } from "../parts/filter.js";
import { age, count } from "../parts/format.js";
import { ViewHead } from "../parts/status.js";
import { Table } from "../parts/table.js";
import { link, useParam } from "../router.js";
import { endSession, followVisible } from "../stream.js";

const LEVELS = ["Racks", "Nodes", "Devices"];
const SHOWN = [["map", "Map"], ["list", "List"]];
const LEGEND_MILLISECONDS = 1000;

// The store, and a number that grows with every change of it.
function useStore(map) {
  const [shown, setShown] = useState({ store: null, version: 0, state: "opening", problem: "" });
  const store = useRef(null);
  useEffect(() => {
    let timer = 0;
    const take = (event, data) => {
      if (event === "snapshot") {
        store.current = new ClusterStore(data);
        setShown((now) => ({ ...now, store: store.current, version: now.version + 1 }));
        return;
      }
      const touched = store.current.apply(data);
      map.current?.painter.spoil(touched);
      map.current?.redraw();
      // Legend and list follow at their own pace.
      timer ||= setTimeout(() => { timer = 0; setShown((now) => ({ ...now, version: now.version + 1 })); }, LEGEND_MILLISECONDS);
    };
    const tell = (state, problem) => {
      if (state === "over") endSession(problem);
      else setShown((now) => (now.state === state && now.problem === problem ? now : { ...now, state, problem }));
    };
    const stop = followVisible("cluster", "", { take, tell });
    return () => { stop(); clearTimeout(timer); };
  }, []);
  return shown;
}

const KINDS = { gpu: "GPU", tpu: "TPU", other: "other device", nic: "network device", cpu: "CPU device" };

// ", 40 GPUs, 10 CPU devices"
const devicesText = (kinds) => Object.entries(KINDS).filter(([kind]) => kinds.has(kind))
  .map(([kind, title]) => `, ${count(kinds.get(kind), kinds.size === 1 ? title.replace("other ", "") : title)}`).join("");

// How many nodes and devices there are, and what is not on the map.
function Summary({ store, kept }) {
  const found = kept ? `, ${count(kept.length, "node")} match${kept.length === 1 ? "es" : ""}` : "";
  const claims = store.whole ? "" : "; you do not see all claims";
  const apart = store.apart > 0 && html`; <a href=${link("devices")}>${count(store.apart, "device")}</a>${" "}
    of no single node ${store.apart === 1 ? "is" : "are"} not on the map`;
  return html`<p class="soft">${count(store.names.length, "node")} with devices${devicesText(store.kinds)}${found}${claims}${apart}</p>`;
}

function Empty({ apart }) {
  return html`<section class="card"><h2>${apart ? "No node has devices of its own" : "No devices yet"}</h2>
    <p>Devices appear here as soon as a driver publishes them in ResourceSlices. If you expect some, check that drivers run on the nodes and that you may list ResourceSlices.</p>
    <p>If you have no devices, <code>dray up --fleet dgx-h100=3</code> simulates three machines.</p></section>`;
}

const COLUMNS = [
  { name: "name", title: "Node", value: (row) => row.key },
  { name: "rack", title: "Rack", whole: true, value: (row) => row.rack },
  { name: "models", title: "Devices", value: (row) => row.models },
  { name: "held", title: "Held", number: true, value: (row) => row.held, cell: (row) => `${row.held} of ${row.devices}` },
  { name: "holders", title: "Holders", value: (row) => row.holders },
  { name: "state", title: "State", value: (row) => row.state },
];

function rowOf(store, node) {
  const devices = store.devices(node).filter((device) => store.isShown(device));
  const held = devices.filter((device) => store.holder[device] >= 0);
  // Network and CPU devices would hide how many GPUs are held.
  const large = devices.filter((device) => !store.isSmall(device) && store.shape(device).parent < 0);
  const counted = large.length ? large : devices;
  const models = new Map();
  devices.forEach((device) => models.set(store.shape(device).model, (models.get(store.shape(device).model) || 0) + 1));
  return {
    key: store.names[node], node, devices: counted.length, held: counted.filter((device) => store.isTaken(device)).length, rack: store.racks[store.nodeRack[node]],
    models: [...models].map(([name, number]) => `${number} × ${name}`).join(", "), state: NODE_STATES[store.nodeState[node]],
    holders: [...new Set(held.map((device) => holderText(store, device)))].join(", "),
  };
}

function matching(store, filter) {
  const words = (node) => {
    const row = rowOf(store, node);
    return `${row.key} ${row.rack} ${row.models} ${row.holders} ${row.state} ${store.devices(node).map((device) => store.claim(device)?.queue || "").join(" ")}`;
  };
  return store.names.map((_, node) => node).filter((node) => matches(filter, words(node)));
}

function Tip({ store, colouring, tip }) {
  if (!tip || tip.found.node < 0) return null;
  const { node, device } = tip.found;
  const style = { left: `${tip.point.x + 14}px`, top: `${tip.point.y + 14}px` };
  if (device < 0) return html`<div class="map-tip" style=${style} aria-hidden="true"><b>${store.names[node]}</b></div>`;
  const claim = store.claim(device);
  return html`<div class="map-tip" style=${style} aria-hidden="true"><b>${store.names[node]} · ${store.shape(device).name}</b>
    <div>${store.shape(device).model}</div><div>${holderText(store, device) || colouring.of(device)[1]}</div>
    ${claim && html`<div>claim ${claim.name}${claim.since && `, since ${age(claim.since)}`}</div>`}
    ${claim?.queue && html`<div>queue ${claim.queue}</div>`}${store.busy[device] >= 0 && html`<div>${store.busy[device]} % busy</div>`}</div>`;
}

function Cluster({ route }) {
  const map = useRef(null);
  const { store, version, state, problem } = useStore(map);
  const [mode] = useChoice("colour", MODES);
  const [show] = useChoice("show", SHOWN);
  const [filter] = useParam("q");
  const [nodeName, setNode] = useParam("node");
  const [deviceName, setDevice] = useParam("device");
  const [tip, setTip] = useState(null);
  const [level, setLevel] = useState(0);
  const categories = useMemo(() => new Categories(), [mode]);
  const colouring = useMemo(() => store && new Colouring(store, mode, categories), [store, mode]);
  const legend = useMemo(() => colouring?.legend() || [], [colouring, version]);
  const kept = useMemo(() => (store && filter.trim() ? matching(store, filter) : null), [store, filter, filter && version]);
  const keptSet = useMemo(() => kept && new Set(kept), [kept]);
  const rows = useMemo(() => (store && show === "list" ? (kept || store.names.map((_, node) => node)).map((node) => rowOf(store, node)) : []), [store, kept, show, version]);
  const node = store?.byName.get(nodeName) ?? -1;
  const device = node >= 0 && deviceName ? store.device(node, deviceName) : -1;
  const choose = (found) => {
    setNode(found.node < 0 ? "" : store.names[found.node]);
    setDevice(found.device < 0 ? "" : store.shape(found.device).name);
  };
  useEffect(() => { if (node >= 0 && route.params.has("node") && map.current && version === 1) map.current.reveal(node); }, [store]);
  return html`<${ViewHead} title="Cluster" state=${state} problem=${problem}>
      <${FilterBox} placeholder="Node, rack, model, pod, queue" />
      <${Choice} label="Colour" param="colour" options=${MODES} />
      <${Choice} label="Show" param="show" options=${SHOWN} /><//>
    ${store && html`<${Summary} store=${store} kept=${kept} />
      <${Legend} entries=${legend.slice(0, 12)} />
      ${!store.names.length ? html`<${Empty} apart=${store.apart} />` : html`<div class=${node >= 0 ? "split open" : "split"}>
        <div class="map-frame">
          ${show === "list" ? html`<${Table} caption="Nodes" columns=${COLUMNS} rows=${rows} most=${200} current=${nodeName}
              onOpen=${(row) => choose({ node: row.node, device: -1 })} empty="No node matches." />`
            : html`<${ClusterMap} store=${store} colouring=${colouring} kept=${keptSet} chosen=${{ node, device }} handle=${map}
                onChoose=${choose} onLevel=${setLevel} onHover=${(found, point) => setTip(point && { found, point })} />
              <div class="map-buttons" role="group" aria-label="Zoom">
                ${LEVELS.map((title, number) => html`<button key=${title} type="button" aria-pressed=${String(level === number)} onClick=${() => map.current.level(number)}>${title}</button>`)}
                <button type="button" aria-label="Zoom in" onClick=${() => map.current.zoom(1.5)}>+</button>
                <button type="button" aria-label="Zoom out" onClick=${() => map.current.zoom(1 / 1.5)}>−</button>
              </div><${Tip} store=${store} colouring=${colouring} tip=${tip} />`}
        </div>
        ${node >= 0 && html`<${Panel} store=${store} node=${node} device=${device} onClose=${() => choose({ node: -1, device: -1 })}
          onDevice=${(each) => setDevice(store.shape(each).name)} />`}
      </div>`}`}`;
}

export const view = { name: "cluster", title: "Cluster", component: Cluster };
