import type { Me } from "../api/types";
import { Card } from "../ui/parts";
import { AuditTable } from "./AuditTable";

export default function AuditPage({ me }: { me: Me | null }) {
  return (
    <main className="page">
      <h1>Audit log</h1>
      <Card
        title="Changes"
        note="everything that was changed through this door, as it stands in the journal"
        wide
      >
        <AuditTable query="?max=100" may={me?.role === "operate"} />
      </Card>
    </main>
  );
}
