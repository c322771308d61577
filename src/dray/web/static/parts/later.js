// A value that follows another after a pause, so that not every key that is pressed asks the server.
import { useEffect, useState } from "../html.js";

export function useLater(value, milliseconds = 300) {
  const [later, setLater] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setLater(value), milliseconds);
    return () => clearTimeout(timer);
  }, [value]);
  return later;
}
