// Where the devices of a site stand: in rings above and beside it, so that none covers the site's name, which is below.

export const EACH = 12; // devices per ring

// The direction of a device, in radians (0 is right, -PI/2 up), and the number of its ring.
export function ring(index, devices) {
  const inRing = Math.min(Math.max(devices, 6), EACH);
  return { angle: (-1.1 + (1.2 * ((index % EACH) + 0.5)) / inRing) * Math.PI, number: Math.floor(index / EACH) };
}

// The side of a device's name that touches the device: names point away from the site.
export const anchor = (angle) => (Math.abs(Math.cos(angle)) < 0.6 ? "bottom" : Math.cos(angle) > 0 ? "left" : "right");
