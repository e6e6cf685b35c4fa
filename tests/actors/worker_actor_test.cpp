#include "actors/worker_actor.hpp"

#include <gtest/gtest.h>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/exit_reason.hpp>
#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>
#include <future>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/base/check.hpp"

namespace millrace::actors {
namespace {

struct Seen {
  std::vector<std::pair<int, int>> messages;  // (actor, number); accessed on the worker
  std::vector<std::thread::id> threads;
  int made = 0, ended = 0;
};

/// Records the numbers that it receives; throws for a negative one.
class Noting : public WorkerActor {
 public:
  Noting(caf::actor_config& config, ComputeWorker& worker, Seen& seen, int self)
      : WorkerActor(config, worker, ComputeWorker::Load::computes), seen_(seen), self_(self) {}
  caf::behavior make_behavior() override {
    ++seen_.made;
    return {[this](int number) {
      if (number < 0) fail(ExitCode::internal, "test", "{}", number);
      seen_.messages.emplace_back(self_, number);
      seen_.threads.push_back(std::this_thread::get_id());
    }};
  }
  void on_exit() override { ++seen_.ended; }

 private:
  Seen& seen_;
  int self_;
};

class WorkerActors : public ::testing::Test {
 protected:
  caf::actor spawn(int self) { return system_.spawn<Noting>(worker_, seen_, self); }
  void end(const caf::actor& actor) { caf::anon_send_exit(actor, caf::exit_reason::user_shutdown); }
  void settle() {
    worker_.run([] {});
  }

  Seen seen_;
  ComputeWorker worker_{1024, {}, {}};
  caf::actor_system_config config_;
  caf::actor_system system_{config_};
};

/// Several messages are sent while the worker is busy: some in a row to one actor, then some to the other. CAF's own scheduling
/// would handle them actor by actor.
TEST_F(WorkerActors, TakeMessagesInTheOrderOfSendingWhoeverGetsThem) {
  std::promise<void> gate;
  const std::shared_future<void> open = gate.get_future().share();
  const auto* wait = &open;
  const auto a = spawn(0), b = spawn(1);
  worker_.post(ComputeWorker::Load::computes, [wait] { wait->wait(); });
  std::vector<std::pair<int, int>> expected;
  for (const int to : {0, 0, 1, 0, 1, 1, 1, 0, 0, 1}) {
    const int number = static_cast<int>(expected.size());
    caf::anon_send(to == 0 ? a : b, number);
    expected.emplace_back(to, number);
  }
  gate.set_value();
  settle();
  EXPECT_EQ(seen_.messages, expected);
  std::thread::id worker;
  worker_.run([&worker] { worker = std::this_thread::get_id(); });
  for (const auto thread : seen_.threads) EXPECT_EQ(thread, worker);
  EXPECT_EQ(seen_.made, 2);
  end(a);
  end(b);
}

TEST_F(WorkerActors, EndOnTheWorkerAndDropWhatComesLater) {
  const auto actor = spawn(0);
  caf::scoped_actor self(system_);
  caf::anon_send(actor, 1);
  end(actor);
  caf::anon_send(actor, 2);
  self->wait_for(actor);
  settle();
  EXPECT_EQ(seen_.messages, (std::vector<std::pair<int, int>>{{0, 1}}));
  EXPECT_EQ(seen_.ended, 1);
}

TEST_F(WorkerActors, EndWithoutEverHavingHadAMessage) {
  const auto actor = spawn(0);
  end(actor);
  caf::scoped_actor self(system_);
  self->wait_for(actor);
  EXPECT_EQ(seen_.ended, 1);
}

TEST_F(WorkerActors, GiveWhatTheyThrowToTheirHandler) {
  const auto actor = spawn(0);
  caf::scoped_actor self(system_);
  worker_.run([&] {
    static_cast<Noting*>(caf::actor_cast<caf::abstract_actor*>(actor))->set_exception_handler([](std::exception_ptr& thrown) -> caf::error {
      EXPECT_THROW(std::rethrow_exception(thrown), Error);
      return caf::exit_reason::user_shutdown;
    });
  });
  caf::anon_send(actor, -1);
  self->wait_for(actor);
  EXPECT_EQ(seen_.ended, 1);
}

}  // namespace
}  // namespace millrace::actors
