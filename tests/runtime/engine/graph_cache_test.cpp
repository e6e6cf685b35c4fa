#include "runtime/engine/graph_cache.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>

#include "kernels/base/buffer.hpp"
#include "kernels/base/device_type.hpp"
#include "kernels/base/thread_team.hpp"
#include "kernels/elementwise.hpp"
#include "tests/support/expect_error.hpp"

namespace millrace::runtime {
namespace {

constexpr kernels::Device kDevice{kernels::DeviceKind::cuda, 0};

class GraphCacheTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = kernels::why_no_cuda(); !why.empty()) GTEST_SKIP() << why;
    queue_ = kernels::make_context(kDevice);
    memory_ = kernels::Buffer(std::size_t{1} << 20, kDevice, kernels::MemorySpace::pinned_host);
  }
  /// Slot 0 holds ones; the others hold sums.
  [[nodiscard]] kernels::Tensor slot(int index) const {
    return kernels::make_tensor(memory_.data() + 1024 * index, kernels::DType::f32, {64});
  }
  [[nodiscard]] static Bindings to(const kernels::Tensor& sum) {
    Bindings bindings;
    bindings[Region::accumulator] = sum.data;
    return bindings;
  }
  /// Adds slot 0 to the sum, through the cache.
  void add(GraphCache& cache, ProgramKind kind, const kernels::Tensor& sum, bool fails = false) {
    const kernels::ExecutionContext context(team_, kernels::Implementation::fast, &*queue_);
    cache.run(*queue_, kind, to(sum), [&] {
      ++bodies_;
      kernels::accumulate(context, slot(0), sum);
      if (fails) fail(ExitCode::data, "test", "a body that fails");
    });
  }
  [[nodiscard]] float of(const kernels::Tensor& sum) {
    queue_->drain();
    return sum.as<float>()[63];
  }

  kernels::ThreadTeam team_{1};
  std::unique_ptr<kernels::DeviceContext> queue_;
  kernels::Buffer memory_;
  int bodies_ = 0;
};

TEST_F(GraphCacheTest, QueuesTheThirdTimeWithoutTheBody) {
  for (int i = 0; i < 64; ++i) slot(0).as<float>()[i] = 1;
  GraphCache cache;
  for (int time = 1; time <= 5; ++time) {
    add(cache, ProgramKind::forward, slot(1));
    EXPECT_EQ(of(slot(1)), static_cast<float>(time)) << "captured and queued: done once";
    EXPECT_EQ(bodies_, std::min(time, 2));
  }
  // Another program, or other slots, are a different graph.
  add(cache, ProgramKind::backward, slot(1));
  add(cache, ProgramKind::forward, slot(2));
  EXPECT_EQ(bodies_, 4);
  EXPECT_EQ(of(slot(1)), 6.0F);
  EXPECT_EQ(of(slot(2)), 1.0F);
}

TEST_F(GraphCacheTest, ForgetsACaptureThatFailed) {
  for (int i = 0; i < 64; ++i) slot(0).as<float>()[i] = 1;
  GraphCache cache;
  add(cache, ProgramKind::forward, slot(1));
  tests::expect_error([&] { add(cache, ProgramKind::forward, slot(1), true); }, ExitCode::data, {"a body that fails"});
  EXPECT_EQ(of(slot(1)), 1.0F) << "nothing of a capture is done";
  add(cache, ProgramKind::forward, slot(1));
  add(cache, ProgramKind::forward, slot(1));
  EXPECT_EQ(of(slot(1)), 3.0F);
  EXPECT_EQ(bodies_, 3);
}

TEST_F(GraphCacheTest, RunsWhatItHasNoRoomFor) {
  GraphCache cache;
  const auto sum = slot(1);
  int bodies = 0;
  const auto run = [&](std::size_t number) {
    Bindings bindings = to(sum);
    bindings[Region::boundary_in] = memory_.data() + number;
    cache.run(*queue_, ProgramKind::forward, bindings, [&] { ++bodies; });
  };
  for (std::size_t number = 0; number <= GraphCache::most; ++number) run(number);
  bodies = 0;
  for (int time = 0; time < 4; ++time) run(GraphCache::most);
  EXPECT_EQ(bodies, 4);
}

}  // namespace
}  // namespace millrace::runtime
