// The member of a document under a name that others chose. Without this, `constructor` names what every object inherits.
export const own = (document, name) => (document && Object.hasOwn(document, name) ? document[name] : undefined);
