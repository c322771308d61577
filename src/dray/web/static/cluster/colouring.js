// What the colour of a device says: who holds it, for which queue, its model, its health, or how busy it is.
import { CATEGORIES, sequential } from "../parts/colours.js";
import { token } from "../theme.js";

const OTHERS = "others";
const UNKNOWN = "unknown holder";
const FREE_SMALL = "free network and CPU devices";
export const MODES = [["holder", "Namespace"], ["claim", "Claim"], ["queue", "Queue"], ["model", "Model"], ["health", "Health"], ["utilization", "Utilization"]];

// Gives each name a colour when it is first seen, and keeps it while the name is there: colours must not change while
// somebody looks. A name for which there was no colour stays without one.
export class Categories {
  colours = new Map();
  present = new Set();

  of(name) {
    this.present.add(name);
    if (!this.colours.has(name)) this.colours.set(name, this.#free());
    return this.colours.get(name);
  }

  // These names are there now.
  keep(names) {
    this.present = new Set([...names, UNKNOWN]);
    for (const [name, colour] of this.colours) if (!colour && !this.present.has(name)) this.colours.delete(name);
  }

  // A colour that no name has, or else that of a name that is gone.
  #free() {
    const taken = new Set(this.colours.values());
    const unused = CATEGORIES.find((each) => !taken.has(each));
    if (unused) return unused;
    for (const [name, colour] of this.colours) {
      if (colour && !this.present.has(name)) {
        this.colours.delete(name);
        return colour;
      }
    }
    return undefined;
  }
}

// What a mode calls the holder of a device.
const HOLDERS = {
  holder: (claim) => claim.namespace,
  claim: (claim) => `${claim.namespace}/${claim.pods[0] || claim.name}`,
  queue: (claim) => claim.queue || "no queue",
};

// By which name a mode tells devices apart; none for modes with fixed colours.
function namesOf(mode) {
  if (mode === "model") return (store, device) => store.shape(device).model;
  return HOLDERS[mode] && ((store, device) => store.claim(device) && HOLDERS[mode](store.claim(device)));
}

export class Colouring {
  // `categories` are those of this mode: another store, of the same cluster later, goes on with them.
  constructor(store, mode, categories) {
    this.store = store;
    this.mode = mode;
    this.names = namesOf(mode);
    this.categories = categories;
    if (this.names) {
      const names = byFrequency(store, this.names);
      categories.keep(names);
      names.forEach((name) => categories.of(name));
    }
    this.theme();
  }

  theme() {
    this.free = token("--device-free");
    this.blocked = token("--device-blocked");
    this.unknown = token("--device-unknown");
    this.others = token("--device-others");
  }

  // [colour, text]; the text is what the legend and the tooltip say.
  of(device) {
    const state = this.store.state(device);
    if (this.mode === "health") {
      if (state === "tainted") return ["#d55e00", "tainted"];
      if (this.store.nodeState[this.store.nodeOf[device]] === 1) return ["#cc79a7", "node not ready"];
      if (this.store.nodeState[this.store.nodeOf[device]] === 2) return ["#e69f00", "node cordoned"];
      return ["#009e73", "healthy"];
    }
    if (this.mode === "model") return this.#category(this.names(this.store, device));
    if (state === "tainted") return ["#d55e00", "tainted"];
    if (state === "free") return [this.free, "free"];
    if (state === "unknown") return [this.unknown, "free or held by others"];
    if (state === "blocked") return [this.blocked, "blocked"];
    if (this.mode === "utilization") {
      const busy = this.store.busy[device];
      return busy < 0 ? [this.others, "held, not reported"] : [sequential(Math.round(busy / 10) / 10), busyText(busy)];
    }
    return this.#category(this.names(this.store, device) || UNKNOWN);
  }

  // The colour of one holder of a shared device; none where colours say something about the device.
  ofClaim(claim) {
    return HOLDERS[this.mode] ? this.#category(claim ? HOLDERS[this.mode](claim) : UNKNOWN)[0] : "";
  }

  #category(name) {
    const colour = this.categories.of(name);
    return colour ? [colour, name] : [this.others, OTHERS];
  }

  // [{ colour, title, count }], the most frequent first. Free network and CPU devices do not hide how many GPUs are free.
  legend() {
    const found = new Map();
    const names = new Set();
    for (let device = 0; device < this.store.size; device += 1) {
      if (!this.store.isShown(device)) continue;
      if (this.names) names.add(this.names(this.store, device));
      const [colour, text] = this.of(device);
      const title = text === "free" && this.store.isSmall(device) ? FREE_SMALL : text;
      const entry = found.get(title) || { colour, title, count: 0 };
      entry.count += 1;
      found.set(title, entry);
    }
    const holder = HOLDERS[this.mode];
    if (holder) for (const held of this.store.shares.values()) held.forEach(([id]) => names.add(holder(this.store.claims.get(id))));
    this.categories.keep(names);
    const entries = [...found.values()];
    return this.mode === "utilization" ? entries.sort((first, second) => first.title.localeCompare(second.title, "en", { numeric: true }))
      : entries.sort((first, second) => (first.title === FREE_SMALL) - (second.title === FREE_SMALL) || second.count - first.count);
  }
}

const busyText = (busy) => (busy < 5 ? "idle" : busy < 34 ? "5–33 % busy" : busy < 67 ? "34–66 % busy" : "67–100 % busy");

// Names of network and CPU devices last: others get the colours, of which there are few.
function byFrequency(store, names) {
  const counts = new Map();
  for (let device = 0; device < store.size; device += 1) {
    const name = store.isShown(device) && names(store, device);
    if (name) counts.set(name, (counts.get(name) || 0) + (store.isSmall(device) ? 1 : 1e6));
  }
  return [...counts].sort((first, second) => second[1] - first[1]).map(([name]) => name);
}
