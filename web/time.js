// Times and how they are written. No clock in here: the time is always a parameter, in milliseconds since 1970.

/** Milliseconds since 1970 of an RFC 3339 time. */
export function parseTime(text) {
  return text ? Date.parse(text) : 0;
}

const two = (number) => String(number).padStart(2, "0");

/** A duration as m:ss, or h:mm:ss from an hour. Never below zero. */
export function duration(ms) {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  const [h, m, s] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60];
  return h ? `${h}:${two(m)}:${two(s)}` : `${m}:${two(s)}`;
}

/** The time left until a deadline. A deadline that has passed is due: only the server ends a reservation. */
export function left(expires, now) {
  return expires <= now ? "due" : duration(expires - now + 999);
}

/** A duration in words, for sentences and tables: "4 s", "12 min", "3 h", "2 d". */
export function roughly(ms) {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86400)} d`;
}

/** A duration in words, exact: "7 min 22 s". */
export function exactly(ms) {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 60) return `${seconds} s`;
  const [h, m, s] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60];
  return h ? `${h} h ${m} min` : `${m} min ${s} s`;
}

/** The time of day of this browser: 14:08, with seconds 14:08:11, and the date if it is not today's. */
export function clock(ms, now, seconds = false) {
  const date = new Date(ms);
  const time = `${two(date.getHours())}:${two(date.getMinutes())}${seconds ? `:${two(date.getSeconds())}` : ""}`;
  const isToday = now === undefined || date.toDateString() === new Date(now).toDateString();
  return isToday ? time : `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${time}`;
}
