// The table of a library: sorted by what was spent, the visible rows in the document.
import { createSortedRowModel, rowSortingFeature, tableFeatures, useTable } from "@tanstack/react-table";
import { useVirtualizer } from "@tanstack/react-virtual";
import { useRef } from "react";
import { RowView, type Row } from "./row";

const ROW_HEIGHT = 28;
const features = tableFeatures({ rowSortingFeature, sortedRowModel: createSortedRowModel() });
const columns = (["id", "name", "status", "spent", "limit", "available", "asks"] as const).map(
  (accessorKey) => ({
    accessorKey,
  }),
);
const initialState = { sorting: [{ id: "spent", desc: true }] };

export function TanStackTable({ rows: data }: { rows: readonly Row[] }) {
  const scroller = useRef<HTMLDivElement>(null);
  const table = useTable({ features, columns, data, initialState, getRowId: ({ id }) => String(id) });
  const { rows } = table.getRowModel();
  const virtualizer = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_HEIGHT,
    overscan: 8,
  });
  return (
    <div ref={scroller} className="grid" role="grid" aria-rowcount={rows.length}>
      <div style={{ height: virtualizer.getTotalSize(), position: "relative" }}>
        {virtualizer.getVirtualItems().map(({ index, start }) => (
          <div key={rows[index]!.id} className="virtual" style={{ transform: `translateY(${start}px)` }}>
            <RowView row={rows[index]!.original} />
          </div>
        ))}
      </div>
    </div>
  );
}
