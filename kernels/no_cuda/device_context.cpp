#include "kernels/base/device_context.hpp"

#include "kernels/base/check.hpp"

// A device context, and thus an event or a graph, cannot be created in a build without CUDA.
namespace millrace::kernels {
namespace {

[[noreturn]] void unreachable() { fail(ExitCode::internal, "kernels.queue", "{}", why_no_cuda()); }

}  // namespace

struct DeviceContext::State {};

DeviceContext::DeviceContext(Device device, Options options) : device_(device), graphs_(options.graphs) {
  fail(ExitCode::config, "kernels.queue", "a queue of {} was asked for, but {}", to_string(device), why_no_cuda());
}
DeviceContext::~DeviceContext() = default;
std::size_t DeviceContext::device_bytes(const Options&) noexcept { return 0; }
void DeviceContext::copy(StreamKind, std::byte*, const std::byte*, std::size_t) { unreachable(); }
void DeviceContext::zero(StreamKind, std::byte*, std::size_t) { unreachable(); }
void DeviceContext::wait(StreamKind, StreamKind) { unreachable(); }
void DeviceContext::drain() { unreachable(); }
void DeviceContext::set_breadcrumb(std::uint32_t) { unreachable(); }
std::uint32_t DeviceContext::last_operation() const noexcept { return 0; }
void DeviceContext::set_action(std::uint32_t) { unreachable(); }
std::uint32_t DeviceContext::last_action() const noexcept { return 0; }
void DeviceContext::check(const char*) { unreachable(); }

Event::Event(const DeviceContext&, bool) { unreachable(); }
Event::~Event() = default;
Event::Event(Event&&) noexcept = default;
void Event::record(DeviceContext&, StreamKind) { unreachable(); }
void Event::wait(DeviceContext&, StreamKind) const { unreachable(); }
bool Event::complete() const { unreachable(); }
float Event::since(const Event&) const { unreachable(); }

Graph::~Graph() = default;
Graph::Graph(Graph&&) noexcept = default;
Graph& Graph::operator=(Graph&&) noexcept = default;
void Graph::begin(DeviceContext&) { unreachable(); }
void Graph::end(DeviceContext&) { unreachable(); }
void Graph::abandon(DeviceContext&) noexcept {}
void Graph::launch(DeviceContext&) const { unreachable(); }

}  // namespace millrace::kernels
