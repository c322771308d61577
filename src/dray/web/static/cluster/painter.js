// Draws the map in tiles that are kept, so that moving it copies a few pictures instead of drawing 40,000 devices.
// Far away a device is a coloured square, nearer nodes have names, and near by devices show name, holder and wiring.
import { token } from "../theme.js";
import { readable, write } from "./lettering.js";

const TILE = 512;
const MOST_TILES = 40;
const FRAME_MILLISECONDS = 8;
const NAMES_FROM = 1.5;
const DETAILS_FROM = 4.2;
const TOKENS = {
  ground: "--ground", node: "--surface", line: "--line", strong: "--line-strong",
  text: "--text", soft: "--text-soft", accent: "--accent", warn: "--warn",
};

export const levelOf = (scale) => (scale < NAMES_FROM ? 0 : scale < DETAILS_FROM ? 1 : 2);
export const LEVEL_SCALES = [0, 2.2, 5.5];

export class Painter {
  constructor(geometry, colouring) {
    this.geometry = geometry;
    this.store = geometry.store;
    this.colouring = colouring;
    this.tiles = new Map();
    this.dimmed = null;
    this.theme();
  }

  theme() {
    this.colours = Object.fromEntries(Object.entries(TOKENS).map(([name, each]) => [name, token(each)]));
    this.tiles.clear();
  }

  // Nodes that are not in the set are drawn pale; null for none.
  dim(kept) {
    this.dimmed = kept;
    this.tiles.clear();
  }

  // Drops the tiles on which these nodes are.
  spoil(nodes) {
    for (const tile of this.tiles.values()) if (!tile.stale && tile.nodes.some((node) => nodes.has(node))) tile.stale = true;
  }

  // view: { x, y, scale } of the upper left corner in units of the map; width and height in pixels.
  // Returns whether everything is drawn; what there was no time for is left to the next frame.
  draw(context, view, width, height, ratio) {
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.fillStyle = this.colours.ground;
    context.fillRect(0, 0, width * ratio, height * ratio);
    const size = TILE / view.scale;
    const until = performance.now() + FRAME_MILLISECONDS;
    let complete = true;
    for (let row = Math.floor(view.y / size); row * size < view.y + height / view.scale; row += 1) {
      for (let column = Math.floor(view.x / size); column * size < view.x + width / view.scale; column += 1) {
        if (column < 0 || row < 0 || column * size > this.geometry.w || row * size > this.geometry.h) continue;
        const x = Math.round((column * size - view.x) * view.scale * ratio);
        const y = Math.round((row * size - view.y) * view.scale * ratio);
        const tile = this.#tile(column, row, view.scale, ratio, until);
        if (tile.canvas) context.drawImage(tile.canvas, x, y);
        complete &&= !tile.stale;
      }
    }
    return complete;
  }

  // A frame around the chosen or pointed at device or node.
  mark(context, view, ratio, { node, device }, strong) {
    if (node < 0) return;
    const box = this.geometry.nodeBox(node);
    const rect = device < 0 ? { x: 0, y: 0, w: box.w, h: box.h } : this.geometry.rect(node, device);
    if (!rect) return;
    const by = view.scale * ratio;
    context.strokeStyle = strong ? this.colours.accent : this.colours.text;
    context.lineWidth = (strong ? 3 : 2) * ratio;
    context.strokeRect((box.x + rect.x - view.x) * by - ratio, (box.y + rect.y - view.y) * by - ratio, rect.w * by + 2 * ratio, rect.h * by + 2 * ratio);
  }

  // A tile that is stale is shown as it was, if there is no time to paint it.
  #tile(column, row, scale, ratio, until) {
    const key = `${column} ${row} ${scale} ${ratio}`;
    const tile = this.tiles.get(key) || { canvas: null, nodes: [], stale: true };
    this.tiles.delete(key);
    this.tiles.set(key, tile);
    if (tile.stale && performance.now() < until) {
      tile.canvas ||= new OffscreenCanvas(TILE * ratio, TILE * ratio);
      this.#paint(tile, column, row, scale, ratio);
    }
    while (this.tiles.size > MOST_TILES) this.tiles.delete(this.tiles.keys().next().value);
    return tile;
  }

  #paint(tile, column, row, scale, ratio) {
    const context = tile.canvas.getContext("2d", { alpha: false });
    const size = TILE / scale;
    const left = column * size;
    const top = row * size;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.fillStyle = this.colours.ground;
    context.fillRect(0, 0, tile.canvas.width, tile.canvas.height);
    context.setTransform(scale * ratio, 0, 0, scale * ratio, -left * scale * ratio, -top * scale * ratio);
    tile.stale = false;
    tile.nodes = [];
    for (const rack of this.geometry.racks) {
      if (rack.x > left + size || rack.y > top + size || rack.x + rack.w < left || rack.y + rack.h < top) continue;
      this.#rack(context, rack, scale);
      rack.nodes.forEach((node) => {
        const box = this.geometry.nodeBox(node);
        if (box.x > left + size || box.y > top + size || box.x + box.w < left || box.y + box.h < top) return;
        tile.nodes.push(node);
        this.#node(context, node, box, scale);
      });
    }
  }

  #rack(context, rack, scale) {
    context.strokeStyle = this.colours.line;
    context.lineWidth = 1 / scale;
    context.strokeRect(rack.x, rack.y, rack.w, rack.h);
    const font = Math.min(12, 13 / scale);
    if (12 * scale < 6) return;
    context.fillStyle = this.colours.soft;
    context.font = `600 ${font}px system-ui, sans-serif`;
    write(context, rack.name, rack.x + 3, rack.y + 9.5, rack.w - 6);
  }

  #node(context, node, box, scale) {
    const geometry = this.geometry.nodes[this.store.nodeLayout[node]];
    const level = levelOf(scale);
    const pale = this.dimmed !== null && !this.dimmed.has(node);
    context.globalAlpha = pale ? 0.18 : 1;
    if (scale > 0.5) {
      context.fillStyle = this.colours.node;
      context.fillRect(box.x, box.y, box.w, box.h);
    }
    if (this.store.nodeState[node]) {
      context.strokeStyle = this.colours.warn;
      context.lineWidth = 2 / scale;
      context.setLineDash([6 / scale, 4 / scale]);
      context.strokeRect(box.x, box.y, box.w, box.h);
      context.setLineDash([]);
    }
    if (level > 0) this.#wiring(context, node, box, geometry, level, scale);
    const first = this.store.first[node];
    let last = "";
    geometry.rects.forEach((rect, place) => {
      if (!rect) return;
      const [colour] = this.colouring.of(first + place);
      if (colour !== last) context.fillStyle = last = colour;
      const share = this.store.shares.get(first + place);
      if (share) {
        this.#shares(context, box, rect, share, colour);
        last = "";
      } else context.fillRect(box.x + rect.x, box.y + rect.y, rect.w, rect.h);
      const held = geometry.parts.has(place) ? this.geometry.heldParts(node, place) : [];
      if (held.length) {
        this.#parts(context, held, box, rect);
        last = "";
      }
      if (level === 2 && rect.w > 6) {
        this.#device(context, first + place, box.x + rect.x, box.y + rect.y, rect.w, Boolean(share || held.length));
        last = "";
      }
    });
    context.globalAlpha = 1;
  }

  // Partitions that are held, as slices of their device; what is left of it is as good as free.
  #parts(context, held, box, rect) {
    context.fillStyle = this.colouring.free;
    context.fillRect(box.x + rect.x, box.y + rect.y, rect.w, rect.h);
    held.forEach((part) => {
      [context.fillStyle] = this.colouring.of(part.device);
      context.fillRect(box.x + part.rect.x, box.y + part.rect.y, part.rect.w, part.rect.h);
    });
  }

  // Each holder has a slice of the device, as high as its share of the memory.
  #shares(context, box, rect, shares, colour) {
    context.fillStyle = this.colouring.free;
    context.fillRect(box.x + rect.x, box.y + rect.y, rect.w, rect.h);
    let bottom = box.y + rect.y + rect.h;
    shares.forEach(([claim, share]) => {
      const high = (rect.h * share) / 100;
      context.fillStyle = this.colouring.ofClaim(this.store.claims.get(claim)) || colour;
      context.fillRect(box.x + rect.x, bottom - high, rect.w, Math.max(0, high - 0.3));
      bottom -= high;
    });
  }

  #wiring(context, node, box, geometry, level, scale) {
    context.fillStyle = this.colours.text;
    context.font = `600 ${Math.min(5, 15 / scale)}px system-ui, sans-serif`;
    write(context, this.store.names[node], box.x + 3, box.y + 5.4, box.w - 6);
    context.lineWidth = 1 / scale;
    context.strokeStyle = this.colours.line;
    geometry.frames.forEach((frame) => context.strokeRect(box.x + frame.x, box.y + frame.y, box.w - 2, frame.h));
    context.strokeStyle = this.colours.strong;
    geometry.roots.forEach((root) => {
      context.beginPath();
      context.moveTo(box.x + root.x, box.y + root.y + 12.8);
      context.lineTo(box.x + root.to, box.y + root.y + 12.8);
      context.stroke();
    });
    if (level < 2) return;
    context.font = "1.5px system-ui, sans-serif";
    context.fillStyle = this.colours.soft;
    geometry.roots.forEach((root) => write(context, root.name, box.x + root.x, box.y + root.y + 14.2, root.to - root.x));
    geometry.frames.forEach((frame) => context.fillText(frame.title, box.x + frame.x + 1, box.y + frame.y + 1.6));
    context.strokeStyle = this.colours.accent;
    geometry.links.forEach(({ points }) => {
      context.beginPath();
      points.forEach((point) => context.lineTo(box.x + point.x, box.y + point.y - 0.7));
      context.stroke();
    });
  }

  // The texts on a device; `divided` says that it is drawn in slices of several colours.
  #device(context, device, x, y, width, divided) {
    const shape = this.store.shape(device);
    const claim = this.store.claim(device);
    context.fillStyle = divided ? this.colours.text : readable(this.colouring.of(device)[0]);
    const line = (text, down, font) => {
      context.font = font;
      write(context, text, x + 0.6, y + down, width - 1.2, divided ? this.colours.node : "");
    };
    line(shape.name, 2.4, "600 1.9px system-ui, sans-serif");
    if (claim) line(claim.pods[0] || claim.name, 4.8, "1.6px system-ui, sans-serif");
    const busy = this.store.busy[device];
    if (busy >= 0) line(`${busy} %`, width - 0.9, "1.6px system-ui, sans-serif");
  }
}
