#include "kernels/base/queue.hpp"

#include "kernels/base/check.hpp"

// A queue, and so a mark or a graph, cannot be made in a build without CUDA.
namespace millrace::kernels {
namespace {

[[noreturn]] void unreachable() { fail(ExitCode::internal, "kernels.queue", "{}", why_no_cuda()); }

}  // namespace

struct Queue::State {};

Queue::Queue(Device device, Options options) : device_(device), graphs_(options.graphs) {
  fail(ExitCode::config, "kernels.queue", "a queue of {} was asked for, but {}", to_string(device), why_no_cuda());
}
Queue::~Queue() = default;
std::size_t Queue::device_bytes(const Options&) noexcept { return 0; }
void Queue::copy(Lane, std::byte*, const std::byte*, std::size_t) { unreachable(); }
void Queue::zero(Lane, std::byte*, std::size_t) { unreachable(); }
void Queue::order(Lane, Lane) { unreachable(); }
void Queue::drain() { unreachable(); }
void Queue::note(std::uint32_t) { unreachable(); }
std::uint32_t Queue::noted() const noexcept { return 0; }
void Queue::note_work(std::uint32_t) { unreachable(); }
std::uint32_t Queue::noted_work() const noexcept { return 0; }
void Queue::check(const char*) { unreachable(); }

Mark::Mark(const Queue&, bool) { unreachable(); }
Mark::~Mark() = default;
Mark::Mark(Mark&&) noexcept = default;
void Mark::record(Queue&, Lane) { unreachable(); }
void Mark::order(Queue&, Lane) const { unreachable(); }
bool Mark::complete() const { unreachable(); }
float Mark::since(const Mark&) const { unreachable(); }

Graph::~Graph() = default;
Graph::Graph(Graph&&) noexcept = default;
Graph& Graph::operator=(Graph&&) noexcept = default;
void Graph::begin(Queue&) { unreachable(); }
void Graph::end(Queue&) { unreachable(); }
void Graph::abandon(Queue&) noexcept {}
void Graph::launch(Queue&) const { unreachable(); }

}  // namespace millrace::kernels
