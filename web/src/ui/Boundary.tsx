import { Component, type ReactNode } from "react";
import { ProblemNote } from "./parts";

interface Props {
  /** Another place is another try. */
  place: string;
  children: ReactNode;
}

/** A page that breaks says so and leaves the rest standing. */
export class Boundary extends Component<Props, { failed: unknown; place: string }> {
  state = { failed: null as unknown, place: this.props.place };

  static getDerivedStateFromError(failed: unknown) {
    return { failed };
  }

  static getDerivedStateFromProps({ place }: Props, state: { failed: unknown; place: string }) {
    return place === state.place ? null : { failed: null, place };
  }

  render(): ReactNode {
    if (this.state.failed === null) return this.props.children;
    const problem = {
      type: "about:blank",
      title: "This page broke.",
      status: 0,
      detail: String(this.state.failed),
    };
    return (
      <main className="page">
        <ProblemNote problem={problem} again={() => this.setState({ failed: null })} />
      </main>
    );
  }
}
