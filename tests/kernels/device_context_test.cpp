#include "kernels/base/device_context.hpp"

#include <algorithm>
#include <span>
#include <thread>

#include "kernels/elementwise.hpp"
#include "kernels/embedding.hpp"
#include "tests/kernels/fixture.hpp"
#include "tests/support/expect_error.hpp"

namespace millrace::kernels::testing {
namespace {

#define MILLRACE_DEVICE_ONLY() \
  if (!on_device()) GTEST_SKIP() << "of a GPU alone"

constexpr std::size_t kBytes = std::size_t{1} << 20;

Buffer pinned(std::size_t bytes, int value = 0) {
  Buffer buffer(bytes, device_queue()->device(), MemorySpace::pinned_host);
  std::fill_n(buffer.data(), bytes, static_cast<std::byte>(value));
  return buffer;
}
Buffer on_the_device(std::size_t bytes) { return Buffer(bytes, device_queue()->device(), MemorySpace::device); }

bool all_are(const Buffer& buffer, int value) {
  return std::ranges::all_of(buffer.bytes(), [&](std::byte byte) { return byte == static_cast<std::byte>(value); });
}

/// A device tensor with `value` in every element.
void fill(DeviceContext& queue, ThreadTeam& team, const Tensor& x, float value) {
  Data host(DType::f32, x.shape);
  for (std::int64_t i = 0; i < host.elements(); ++i) host.set(i, value);
  convert(ExecutionContext(team, Implementation::fast, &queue), *host, x);
  queue.drain();
}

void expect_complete(const Event& mark) {
  while (!mark.complete()) std::this_thread::yield();  // if it never completes, the test times out
}

TEST(DeviceContext, RefusesADeviceThatIsNotThere) {
  const auto devices = static_cast<int>(cuda_devices().size());
  if (!why_no_cuda().empty()) {
    tests::expect_error([] { static_cast<void>(make_context(Device{DeviceKind::cuda, 0})); }, ExitCode::config, {"cuda:0", why_no_cuda()});
    EXPECT_EQ(devices, 0);
  } else {
    EXPECT_GT(devices, 0);
    std::vector<Device> all;
    for (const auto& description : cuda_devices()) all.push_back(description.device);
    const DeviceType& type = device_type(DeviceKind::cuda);
    type.connect_peers(all);
    type.connect_peers(all);  // repeating it is not an error
    EXPECT_FALSE(type.libraries().empty());
  }
}

TEST(DeviceContext, CopiesInOrder) {
  MILLRACE_DEVICE_ONLY();
  DeviceContext& queue = *device_queue();
  const Buffer first = pinned(kBytes, 1), second = pinned(kBytes, 2), device = on_the_device(kBytes), other = on_the_device(kBytes);
  const Buffer found = pinned(kBytes), later = pinned(kBytes), last = pinned(kBytes, 9);
  queue.copy(StreamKind::copy_in, device.data(), first.data(), kBytes);
  queue.copy(StreamKind::copy_in, other.data(), device.data(), kBytes);
  queue.copy(StreamKind::copy_in, device.data(), second.data(), kBytes);
  queue.copy(StreamKind::copy_in, found.data(), other.data(), kBytes);
  queue.copy(StreamKind::copy_in, later.data(), device.data(), kBytes);
  queue.zero(StreamKind::copy_in, device.data(), kBytes);
  queue.copy(StreamKind::copy_in, last.data(), device.data(), kBytes);
  queue.drain();
  EXPECT_TRUE(all_are(found, 1));
  EXPECT_TRUE(all_are(later, 2));
  EXPECT_TRUE(all_are(last, 0));
  queue.copy(StreamKind::copy_out, nullptr, nullptr, 0);
  queue.zero(StreamKind::copy_out, nullptr, 0);
}

TEST(DeviceContext, OrdersALaneAfterAnother) {
  MILLRACE_DEVICE_ONLY();
  DeviceContext& queue = *device_queue();
  ThreadTeam team(1);
  const ExecutionContext context(team, Implementation::fast, &queue);
  const Buffer device = on_the_device(kBytes), result = on_the_device(kBytes);
  const Shape shape{static_cast<std::int64_t>(kBytes / sizeof(float))};
  const Tensor x = make_tensor(device.data(), DType::f32, shape), y = make_tensor(result.data(), DType::f32, shape);
  for (int round = 1; round <= 5; ++round) {
    Data in(DType::f32, shape);
    for (std::int64_t i = 0; i < in.elements(); ++i) in.set(i, round);
    Data out(DType::f32, shape);
    const Tensor from = *in, to = *out;
    // Copy in, compute and copy out on three streams; the next round's copy in waits until the data of this one has been read.
    queue.wait(StreamKind::copy_in, StreamKind::compute);
    queue.copy(StreamKind::copy_in, x.data, from.data, kBytes);
    queue.wait(StreamKind::compute, StreamKind::copy_in);
    for (int i = 0; i < 4; ++i) scale(context, x, {2.0F}, x);
    convert(context, x, y);
    queue.wait(StreamKind::copy_out, StreamKind::compute);
    queue.copy(StreamKind::copy_out, to.data, y.data, kBytes);
    queue.wait(StreamKind::compute, StreamKind::copy_out);
    for (std::int64_t i = 0; i < out.elements(); i += 1001) EXPECT_EQ(out.get(i), 16.0 * round) << i;
  }
}

TEST(Event, IsCompleteWhenAllBeforeItIs) {
  MILLRACE_DEVICE_ONLY();
  DeviceContext& queue = *device_queue();
  Event mark(queue);
  EXPECT_TRUE(mark.complete());  // nothing was recorded
  const Buffer host = pinned(kBytes, 3), device = on_the_device(kBytes), found = pinned(kBytes);
  for (int round = 0; round < 3; ++round) {
    std::fill_n(host.data(), kBytes, static_cast<std::byte>(round + 1));
    queue.copy(StreamKind::copy_in, device.data(), host.data(), kBytes);
    queue.copy(StreamKind::copy_in, found.data(), device.data(), kBytes);
    mark.record(queue, StreamKind::copy_in);
    expect_complete(mark);
    EXPECT_TRUE(all_are(found, round + 1));
  }
  Event moved(std::move(mark));
  EXPECT_TRUE(moved.complete());
}

TEST(Event, OrdersLanesOfOtherQueuesAfterIt) {
  MILLRACE_DEVICE_ONLY();
  DeviceContext& queue = *device_queue();
  const auto devices = cuda_devices();
  for (const Device where : {queue.device(), devices.back().device}) {
    const auto made = make_context(where);
    DeviceContext& other = *made;
    const Buffer host = pinned(kBytes, 7), device = on_the_device(kBytes), found = pinned(kBytes);
    Event mark(queue);
    for (int i = 0; i < 8; ++i) queue.copy(StreamKind::copy_in, device.data(), host.data(), kBytes);
    mark.record(queue, StreamKind::copy_in);
    mark.wait(other, StreamKind::copy_out);
    other.copy(StreamKind::copy_out, found.data(), device.data(), kBytes);
    other.drain();
    EXPECT_TRUE(all_are(found, 7)) << to_string(where);
    EXPECT_TRUE(mark.complete());
  }
}

TEST(Event, TellsTheTimeBetween) {
  MILLRACE_DEVICE_ONLY();
  DeviceContext& queue = *device_queue();
  const Buffer host = pinned(kBytes, 7), device = on_the_device(kBytes);
  Event begin(queue, true), end(queue, true);
  begin.record(queue, StreamKind::copy_in);
  for (int i = 0; i < 16; ++i) queue.copy(StreamKind::copy_in, device.data(), host.data(), kBytes);
  end.record(queue, StreamKind::copy_in);
  queue.drain();
  EXPECT_GT(end.since(begin), 0.0F);
  EXPECT_LT(end.since(begin), 60e3F);
}

TEST(Graph, DoesAgainWhatWasCaptured) {
  MILLRACE_DEVICE_ONLY();
  DeviceContext& queue = *device_queue();
  ThreadTeam team(1);
  const ExecutionContext context(team, Implementation::fast, &queue);
  const Shape shape{1000};
  const Data x(DType::f32, shape, 1), start(DType::f32, shape, 2);
  Data sum(start);
  const Tensor from = *x, to = *sum;
  Graph graph;
  EXPECT_FALSE(graph);
  Graph::begin(queue);
  accumulate(context, from, to);
  accumulate(context, from, to);
  graph.end(queue);
  EXPECT_TRUE(graph);
  EXPECT_TRUE(same_bits(sum, start));  // it was only recorded
  for (int i = 0; i < 3; ++i) graph.launch(queue);
  Data wanted(start);
  for (int i = 0; i < 6; ++i) accumulate(ExecutionContext(team, Implementation::reference), *x, *wanted);
  EXPECT_TRUE(same_bits(sum, wanted));
  // Work enqueued before and after a graph stays before and after it.
  fill(queue, team, to, 0);
  graph.launch(queue);
  scale(context, to, {0.5F}, to);
  graph.launch(queue);
  for (std::int64_t i = 0; i < 1000; i += 7) EXPECT_NEAR(sum.get(i), 3 * x.get(i), 1e-6);
  Graph moved(std::move(graph));
  EXPECT_TRUE(moved);
  moved.launch(queue);
  queue.drain();
}

TEST(Graph, IsForgottenWhenItIsAbandoned) {
  MILLRACE_DEVICE_ONLY();
  DeviceContext& queue = *device_queue();
  ThreadTeam team(1);
  const ExecutionContext context(team, Implementation::fast, &queue);
  const Data x(DType::f32, {100}, 1), start(DType::f32, {100}, 2);
  Data sum(start);
  const Tensor from = *x, to = *sum;
  Graph::begin(queue);
  accumulate(context, from, to);
  Graph::abandon(queue);
  Graph::abandon(queue);  // nothing is left to abandon
  EXPECT_TRUE(same_bits(sum, start));
  accumulate(context, from, to);
  EXPECT_FALSE(same_bits(sum, start));
}

TEST(DeviceContext, TellsWhatAKernelFoundWrong) {
  MILLRACE_DEVICE_ONLY();
  const auto made = make_context(device_queue()->device());
  DeviceContext& queue = *made;
  ThreadTeam team(1);
  const ExecutionContext context(team, Implementation::fast, &queue);
  Data tokens(DType::i32, {9});
  tokens.set(6, 11);
  const Data table(DType::f32, {11, 8}, 3), y(DType::f32, {9, 8});
  Event mark(queue);
  for (int round = 0; round < 2; ++round) {  // and again, after it was reported
    EXPECT_NO_THROW(embedding_forward(context, *tokens, *table, *y));
    mark.record(queue, StreamKind::compute);
    expect_complete(mark);
    tests::expect_error([&] { queue.check("the test"); }, ExitCode::data, {"token 11 at position 6, expected 0 to 10"});
    EXPECT_NO_THROW(queue.check("the test"));
  }
  embedding_forward(context, *tokens, *table, *y);
  tests::expect_error([&] { queue.drain(); }, ExitCode::data, {"token 11 at position 6, expected 0 to 10"});
  EXPECT_NO_THROW(queue.drain());
}

TEST(DeviceContext, KnowsWhichOperationBegan) {
  MILLRACE_DEVICE_ONLY();
  const auto made = make_context(device_queue()->device());
  DeviceContext& queue = *made;
  for (const std::uint32_t number : {7U, 9U, 4'000'000'000U}) {
    queue.set_breadcrumb(number);
    queue.drain();
    EXPECT_EQ(queue.last_operation(), number);
  }
}

}  // namespace
}  // namespace millrace::kernels::testing
