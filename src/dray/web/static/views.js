// The views of the page, in the order of the menu. A view is listed once, here; its module is loaded when it is shown.
export const VIEWS = [
  { name: "cluster", title: "Cluster", load: () => import("./views/cluster.js") },
  { name: "waiting", title: "Waiting", load: () => import("./views/waiting.js") },
  { name: "queues", title: "Queues", load: () => import("./views/queues.js") },
  { name: "devices", title: "Devices", load: () => import("./views/devices.js") },
  { name: "try", title: "Try", load: () => import("./views/try.js") },
  { name: "history", title: "History", load: () => import("./views/history.js") },
];
