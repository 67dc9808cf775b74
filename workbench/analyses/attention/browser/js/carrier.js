// Carries messages between the browser and Python: requests are triggers, responses are new data.
// A component of its own, because Streamlit sends a component's script with each of its messages.

export default function carrier(component) {
  const line = (window.workbenchAttention ||= {});
  const send = (request) => component.setTriggerValue("ask", request);
  line.send = send;
  if (line.waiting) send(line.waiting);
  line.waiting = null;
  if (component.data?.length) line.take?.(component.data);
  return () => {
    if (line.send === send) line.send = null;
  };
}
