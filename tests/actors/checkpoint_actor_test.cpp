#include "actors/checkpoint_actor.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/scoped_actor.hpp>
#include <filesystem>

#include "runtime/io/fault.hpp"
#include "tests/support/temporary_folder.hpp"

namespace millrace::actors {
namespace {

/// Runs the checkpoint actor of process 0 on a run directory; the test writes what ranks would write.
class CheckpointActorTest : public ::testing::Test {
 protected:
  CheckpointActorTest() {
    CheckpointActorSetup setup;
    setup.store = &store_;
    setup.metrics = &metrics_;
    setup.microbatches = runtime::BatchRamp(4);
    setup.rows = 2;
    setup.identity = {{"train.seed", "1"}};
    actor_ = system_.spawn<CheckpointActor, caf::detached>(setup);
  }
  ~CheckpointActorTest() override {
    runtime::set_file_hook({});
    caf::anon_send_exit(actor_, caf::exit_reason::user_shutdown);
  }

  std::string begin(std::uint64_t step) { return store_.begin(step, 64); }

  [[nodiscard]] static std::string shard(const std::string& folder) {
    static const std::array<float, 4> values{1, 2, 3, 4};
    const std::vector<runtime::CheckpointTensor> tensors{{"weight", runtime::FileDType::f32, {4}, std::as_bytes(std::span(values)), {}}};
    return runtime::write_shard(folder, 0, 1, tensors).text();
  }

  template <class Request>
  CheckpointCommitted ask(const Request& request) {
    CheckpointCommitted answer;
    caf::scoped_actor self(system_);
    self->request(actor_, std::chrono::minutes(1), request)
        .receive([&](const CheckpointCommitted& result) { answer = result; },
                 [](const caf::error& error) { ADD_FAILURE() << "no answer: " << caf::to_string(error); });
    return answer;
  }

  /// Begins, writes and commits a checkpoint.
  CheckpointCommitted save(std::int64_t step) {
    const auto folder = begin(static_cast<std::uint64_t>(step));
    return ask(CommitCheckpoint{step, folder, {shard(folder)}});
  }

  tests::TemporaryFolder folder_;
  runtime::CheckpointStore store_{folder_ / "run", {2, 0}};
  runtime::MetricsFile metrics_{folder_ / "run/metrics.jsonl"};
  caf::actor_system_config config_;
  caf::actor_system system_{config_};
  caf::actor actor_;
};

TEST_F(CheckpointActorTest, TheLinesOfACommittedStepAreOnTheDiskBeforeIt) {
  metrics_.append({10, {}});
  std::vector<std::pair<runtime::FileOperation, std::string>> calls;
  runtime::set_file_hook([&](const runtime::FileCall& call) {
    calls.emplace_back(call.operation, std::string(call.path));
    return runtime::FileFault::none;
  });
  const auto result = save(10);
  runtime::set_file_hook({});
  EXPECT_EQ(result.error, "");
  const auto synced = std::find(calls.begin(), calls.end(), std::pair(runtime::FileOperation::sync, metrics_.path()));
  const auto renamed =
      std::find_if(calls.begin(), calls.end(), [](const auto& call) { return call.first == runtime::FileOperation::rename; });
  ASSERT_NE(renamed, calls.end());
  EXPECT_LT(synced - calls.begin(), renamed - calls.begin());
  const auto found = store_.newest_usable();
  ASSERT_TRUE(found.checkpoint);
  EXPECT_EQ(found.checkpoint->meta().consumed_samples, 80U);
  EXPECT_EQ(found.checkpoint->meta().identity.at("train.seed"), "1");
}

TEST_F(CheckpointActorTest, AnswersWithTheWarningsOfACommit) {
  EXPECT_TRUE(save(10).warnings.empty());
  EXPECT_TRUE(save(20).warnings.empty());
  runtime::set_faults("io:op=unlink:from=1:eio", 0);
  const auto result = save(30);
  runtime::set_file_hook({});
  EXPECT_EQ(result.error, "");
  ASSERT_EQ(result.warnings.size(), 1U);
  EXPECT_EQ(result.warnings[0].cause, runtime::CheckpointWarning::Cause::deletion);
  EXPECT_NE(result.warnings[0].text.find("step-00000010"), std::string::npos) << result.warnings[0].text;
}

TEST_F(CheckpointActorTest, AFailedCommitAndADiscardedAttemptLeaveNoFolder) {
  runtime::set_faults("io:path=COMMIT:op=write:call=1:enospc", 0);
  const auto failed = save(10);
  EXPECT_NE(failed.error.find("COMMIT"), std::string::npos) << failed.error;
  EXPECT_TRUE(failed.warnings.empty());
  EXPECT_TRUE(std::filesystem::is_empty(store_.folder()));
  const auto folder = begin(20);
  const auto discarded = ask(DiscardCheckpoint{20, folder, "rank 3: disk full"});
  EXPECT_EQ(discarded.step, 20);
  EXPECT_EQ(discarded.error, "rank 3: disk full");
  EXPECT_FALSE(std::filesystem::exists(folder));
}

}  // namespace
}  // namespace millrace::actors
