// The devices of the cluster in columns: one typed array for each fact, so that 40,000 devices take two megabytes.
const STATE_NAMES = { f: "free", a: "allocated", s: "shared", t: "tainted", b: "blocked", u: "unknown" };
const SHAPE = ["name", "driver", "model", "kind", "numa", "root", "parent", "link", "memory", "shared"];
export const SMALL_KINDS = ["nic", "cpu"];
export const NODE_STATES = ["ready", "not ready", "cordoned"];

export class ClusterStore {
  constructor(snapshot) {
    this.racks = snapshot.racks;
    this.names = snapshot.nodes.names;
    this.nodeRack = Uint32Array.from(snapshot.nodes.racks);
    this.nodeState = Uint8Array.from(snapshot.nodes.states);
    this.nodeLayout = Uint32Array.from(snapshot.nodes.layouts);
    this.layouts = snapshot.layouts;
    this.shapes = snapshot.shapes.map((values) => Object.fromEntries(SHAPE.map((name, place) => [name, values[place]])));
    this.whole = snapshot.whole;
    this.apart = snapshot.apart;
    this.claims = new Map(Object.entries(snapshot.claims).map(([id, row]) => [Number(id), claimOf(row)]));
    this.first = new Uint32Array(this.names.length + 1);
    this.names.forEach((_, node) => { this.first[node + 1] = this.first[node] + this.layouts[this.nodeLayout[node]].length; });
    this.size = this.first[this.names.length];
    this.nodeOf = new Uint32Array(this.size);
    this.names.forEach((_, node) => this.nodeOf.fill(node, this.first[node], this.first[node + 1]));
    this.states = Uint8Array.from(snapshot.states, (letter) => letter.charCodeAt(0));
    this.holder = new Int32Array(this.size).fill(-1);
    this.busy = new Int16Array(this.size).fill(-1);
    // Only of devices that several claims share, or that a claim has a part of.
    this.shares = new Map();
    for (let at = 0; at < snapshot.held.length; at += 3) this.#hold(snapshot.held[at], snapshot.held[at + 1], snapshot.held[at + 2]);
    for (let at = 0; at < snapshot.busy.length; at += 2) this.busy[snapshot.busy[at]] = snapshot.busy[at + 1];
    this.kinds = this.#count();
    this.byName = new Map(this.names.map((name, node) => [name, node]));
  }

  // Applies a change; returns the nodes that look different now.
  apply(change) {
    const touched = new Set();
    for (const [id, row] of Object.entries(change.claims || {})) this.claims.set(Number(id), claimOf(row));
    for (const [device, state, busy, held] of change.devices || []) {
      this.states[device] = state.charCodeAt(0);
      this.busy[device] = busy;
      this.holder[device] = -1;
      this.shares.delete(device);
      for (const [claim, share] of held) this.#hold(device, claim, share);
      touched.add(this.nodeOf[device]);
    }
    for (const [node, state] of Object.entries(change.nodes || {})) {
      this.nodeState[node] = state;
      touched.add(Number(node));
    }
    return touched;
  }

  // How many devices there are of each kind; partitions are parts of others.
  #count() {
    const nodes = new Uint32Array(this.layouts.length);
    this.nodeLayout.forEach((layout) => { nodes[layout] += 1; });
    const found = new Map();
    this.layouts.forEach((layout, number) => layout.map((shape) => this.shapes[shape]).filter((shape) => shape.parent < 0)
      .forEach((shape) => found.set(shape.kind, (found.get(shape.kind) || 0) + nodes[number])));
    return found;
  }

  // Network and CPU devices, which are drawn small.
  isSmall(device) { return SMALL_KINDS.includes(this.shape(device).kind); }

  #hold(device, claim, share) {
    if (this.holder[device] < 0) this.holder[device] = claim;
    if (share < 100 || this.shares.has(device)) this.shares.set(device, [...(this.shares.get(device) || []), [claim, share]]);
  }

  shape(device) {
    const node = this.nodeOf[device];
    return this.shapes[this.layouts[this.nodeLayout[node]][device - this.first[node]]];
  }

  // A partition that nobody holds is a possibility, not a device beside others.
  isShown(device) { return this.holder[device] >= 0 || this.shape(device).parent < 0; }

  state(device) { return STATE_NAMES[String.fromCharCode(this.states[device])]; }

  // Whether a claim holds it or a part of it.
  isTaken(device) { return this.holder[device] >= 0 || this.state(device) === "blocked"; }

  claim(device) { return this.claims.get(this.holder[device]); }

  // Claims on a device, each with its share in percent.
  holders(device) {
    const shared = this.shares.get(device) || (this.holder[device] < 0 ? [] : [[this.holder[device], 100]]);
    return shared.map(([id, share]) => ({ ...this.claims.get(id), share }));
  }

  devices(node) {
    return Array.from({ length: this.first[node + 1] - this.first[node] }, (_, place) => this.first[node] + place);
  }

  device(node, name) { return this.devices(node).find((device) => this.shape(device).name === name) ?? -1; }
}

function claimOf([namespace, name, queue, since, ...pods]) {
  return { namespace, name, queue, since, pods };
}
