// Which frames count: the rules of docs/api.md section 4, "What the client does", as a state machine without a socket.
import {
  type Frame,
  FrameError,
  SCHEMA,
  type Spark,
  TEMPLATE,
  applyPart,
  applyPatch,
  readPart,
  readSparks,
  tableFor,
} from "./codec";
import { type Table, headOf } from "./table";

export type Outcome =
  | { does: "acknowledge" }
  | { does: "load"; isWhole: boolean }
  | { does: "sparks"; sparks: Spark[] }
  | { does: "ignore" }
  | { does: "resync"; why: string }
  | { does: "leave"; why: string };

/** Follows one connection. The table outlives it: old figures stay until a new snapshot is whole. */
export class Sequence {
  table: Table | null = null;
  /** The first rows, until the first snapshot is whole. Made anew when twice as many have come: few copies, soon a first screen. */
  head: Table | null = null;
  /** Rows of the snapshot that have come... */
  loaded = 0;
  /** ...of so many. */
  total = 0;
  last = 0;
  private building: Table | null = null;
  private live = false;

  /** `accepted` is called for a part of a snapshot before it is read, so that the node can make the next one meanwhile. */
  constructor(private readonly accepted: () => void = () => undefined) {}

  /** A new connection counts from one. */
  restart(): void {
    this.last = 0;
    this.drop();
  }

  take(frame: Frame): Outcome {
    const { schema, version, sequence } = frame.header;
    if (schema !== SCHEMA.id || version < SCHEMA.version) {
      return {
        does: "leave",
        why: `the node speaks ${schema} version ${version}, this page ${SCHEMA.id} version ${SCHEMA.version}`,
      };
    }
    if (sequence <= this.last) return { does: "ignore" };
    const gap = sequence !== this.last + 1;
    this.last = sequence;
    if (gap) return this.lost("frames are missing");
    try {
      return this.apply(frame);
    } catch (error) {
      if (error instanceof FrameError) return this.lost(error.message);
      throw error;
    }
  }

  private apply(frame: Frame): Outcome {
    switch (frame.header.template) {
      case TEMPLATE.snapshot:
        return this.part(frame);
      case TEMPLATE.patch:
        return this.patch(frame);
      case TEMPLATE.sparks:
        return { does: "sparks", sparks: this.live ? readSparks(frame) : [] };
      default:
        return this.lost(`a message of template ${frame.header.template}`);
    }
  }

  private part(frame: Frame): Outcome {
    const { firstRow, rowsTotal } = readPart(frame);
    if (firstRow === 0) {
      this.building = tableFor(frame);
      this.loaded = 0;
    }
    if (this.building === null || firstRow !== this.loaded)
      return this.lost("a part of the snapshot is missing");
    this.accepted();
    applyPart(this.building, frame);
    this.loaded = firstRow + frame.header.count;
    this.total = rowsTotal;
    if (this.loaded < rowsTotal) {
      if (this.table === null && this.loaded >= 2 * (this.head?.rows ?? 0))
        this.head = headOf(this.building, this.loaded);
      return { does: "load", isWhole: false };
    }
    this.table = this.building;
    this.head = null;
    this.building = null;
    this.live = true;
    return { does: "load", isWhole: true };
  }

  private patch(frame: Frame): Outcome {
    if (!this.live || this.table === null || this.building !== null)
      return this.lost("a change before its snapshot");
    applyPatch(this.table, frame);
    return { does: "acknowledge" };
  }

  private lost(why: string): Outcome {
    this.drop();
    return { does: "resync", why };
  }

  private drop(): void {
    this.building = null;
    this.live = false;
    this.loaded = 0;
  }
}
