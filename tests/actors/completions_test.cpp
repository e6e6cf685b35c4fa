#include "actors/rank/completions.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "kernels/base/buffer.hpp"
#include "kernels/base/device_type.hpp"
#include "kernels/base/thread_team.hpp"
#include "kernels/embedding.hpp"
#include "runtime/engine/trace.hpp"
#include "tests/support/expect_error.hpp"

namespace millrace::actors {
namespace {

using kernels::StreamKind;

constexpr std::size_t kBytes = std::size_t{1} << 20;

class CompletionsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = kernels::why_no_cuda(); !why.empty()) GTEST_SKIP() << why;
    queue_ = kernels::make_context(kDevice);
    device_ = kernels::Buffer(kBytes, kDevice, kernels::MemorySpace::device);
    host_ = kernels::Buffer(kBytes, kDevice, kernels::MemorySpace::pinned_host);
  }
  void work(StreamKind lane, int copies) {
    for (int i = 0; i < copies; ++i) queue_->copy(lane, host_.data(), device_.data(), kBytes);
  }
  static void poll_to_the_end(Completions& completions) {
    while (completions.poll()) std::this_thread::yield();  // if it never completes, the test times out
  }

  static constexpr kernels::Device kDevice{kernels::DeviceKind::cuda, 0};
  std::unique_ptr<kernels::DeviceContext> queue_;
  kernels::Buffer device_, host_;
};

TEST_F(CompletionsTest, ComeInTheOrderInWhichTheyWereAdded) {
  Completions completions(*queue_, 8);
  EXPECT_FALSE(completions.poll());
  std::vector<int> order;
  auto* list = &order;
  for (int round = 0; round < 3; ++round) {  // around the ring
    order.clear();
    for (int i = 0; i < 6; ++i) {  // the first lanes have the most to do
      const StreamKind lane = i % 3 == 0 ? StreamKind::compute : i % 3 == 1 ? StreamKind::copy_in : StreamKind::copy_out;
      completions.begin();
      work(lane, 6 - i);
      completions.add(lane, "the test", [list, i](const Completion&) { list->push_back(i); });
    }
    poll_to_the_end(completions);
    EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4, 5}));
  }
}

TEST_F(CompletionsTest, GiveConsecutiveTimes) {
  Completions completions(*queue_);
  std::vector<Completion> completed;
  auto* list = &completed;
  for (int i = 0; i < 4; ++i) {
    completions.begin();
    work(StreamKind::compute, 4);
    completions.add(StreamKind::compute, "the test", [list](const Completion& completion) { list->push_back(completion); });
  }
  poll_to_the_end(completions);
  ASSERT_EQ(completed.size(), 4U);
  for (std::size_t i = 0; i < completed.size(); ++i) {
    EXPECT_EQ(completed[i].error, nullptr);
    EXPECT_LE(completed[i].begin, completed[i].end);
    if (i > 0) {
      EXPECT_LE(completed[i - 1].end, completed[i].begin);
    }
  }
}

// A worker that is busy observes several ends at once, long after: each still has the time that the device took.
TEST_F(CompletionsTest, AreTimedByTheDeviceHoweverLateTheyAreSeen) {
  Completions completions(*queue_);
  std::vector<Completion> completed;
  auto* list = &completed;
  const auto enqueue = [&](int copies) {
    completions.begin();
    work(StreamKind::compute, copies);
    completions.add(StreamKind::compute, "the test", [list](const Completion& completion) { list->push_back(completion); });
  };
  enqueue(40);
  poll_to_the_end(completions);  // seen at once
  enqueue(40);
  enqueue(40);
  queue_->drain();
  const std::int64_t done = runtime::steady_now();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  poll_to_the_end(completions);
  ASSERT_EQ(completed.size(), 3U);
  for (int i = 1; i < 3; ++i) {
    EXPECT_LE(completed[i - 1].end, completed[i].begin);
    EXPECT_LT(completed[i].begin, completed[i].end);
  }
  // The device was done before the sleep: no end is that of the moment when it was seen, and none is pushed behind another one's.
  constexpr std::int64_t half_the_sleep = 100'000'000;
  EXPECT_LT(completed[2].end, done + half_the_sleep);
  EXPECT_LT(completed[1].end, done + half_the_sleep);
}

TEST_F(CompletionsTest, OfTheBackgroundHaveAnOrderOfTheirOwn) {
  Completions completions(*queue_, 4);
  std::string order;
  auto* text = &order;
  for (const char name : {'1', '2', '3', '4'}) {
    work(StreamKind::background, 4);
    completions.add(StreamKind::background, "long", [text, name](const Completion&) { *text += name; });
    completions.begin();
    work(StreamKind::compute, 1);
    completions.add(StreamKind::compute, "short", [text, name](const Completion&) { *text += static_cast<char>(name - '1' + 'a'); });
  }
  poll_to_the_end(completions);
  std::string front, background;
  for (const char name : order) (name >= 'a' ? front : background) += name;
  EXPECT_EQ(front, "abcd");
  EXPECT_EQ(background, "1234");
}

TEST_F(CompletionsTest, ABodyMayQueueMore) {
  Completions completions(*queue_, 1);
  int calls = 0;
  struct Again {
    CompletionsTest* test;
    Completions* completions;
    int* calls;
    void operator()(const Completion&) const {
      if (++*calls == 3) return;
      completions->begin();
      completions->add(StreamKind::compute, "again", *this);
    }
  };
  completions.begin();
  completions.add(StreamKind::compute, "again", Again{this, &completions, &calls});
  tests::expect_error(
      [&] {
        completions.add(StreamKind::compute, "too much", Again{this, &completions, &calls});
      },
      ExitCode::internal, {"1 pieces"});
  poll_to_the_end(completions);
  EXPECT_EQ(calls, 3);
}

TEST_F(CompletionsTest, AnErrorIsToldToTheWorkThatMadeIt) {
  Completions completions(*queue_);
  kernels::ThreadTeam team(1);
  const kernels::ExecutionContext context(team, kernels::Implementation::fast, &*queue_);
  auto* tokens = reinterpret_cast<std::int32_t*>(host_.data());
  for (int i = 0; i < 9; ++i) tokens[i] = i == 6 ? 11 : i;
  const auto x = kernels::make_tensor(host_.data(), kernels::DType::i32, {9});
  const auto table = kernels::make_tensor(device_.data(), kernels::DType::f32, {11, 8});
  const auto y = kernels::make_tensor(device_.data() + 4096, kernels::DType::f32, {9, 8});
  std::vector<std::string> outcomes;
  auto* list = &outcomes;
  const auto record = [list](const Completion& completion) {
    list->push_back(completion.error == nullptr ? "" : completion.error->what());
  };
  completions.add(StreamKind::compute, "before", record);
  poll_to_the_end(completions);
  kernels::embedding_forward(context, x, table, y);
  completions.add(StreamKind::compute, "the lookup", record);
  poll_to_the_end(completions);
  completions.add(StreamKind::compute, "after", record);
  poll_to_the_end(completions);
  ASSERT_EQ(outcomes.size(), 3U);
  EXPECT_EQ(outcomes[0], "");
  EXPECT_NE(outcomes[1].find("token 11 at position 6"), std::string::npos) << outcomes[1];
  EXPECT_EQ(outcomes[2], "");
}

}  // namespace
}  // namespace millrace::actors
