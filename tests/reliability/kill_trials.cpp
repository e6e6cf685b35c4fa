#include "tests/reliability/kill_trials.hpp"

#include <signal.h>

#include <array>
#include <random>
#include <thread>

namespace millrace::tests {
namespace {

constexpr int processes = 4;
constexpr int nobody = -1;
constexpr auto time_to_leave = Job::Seconds(10);  // generous; benchmarks/reliability measures how fast it really is

using Random = std::mt19937;
int between(Random& random, int low, int high) { return low + static_cast<int>(random() % static_cast<unsigned>(high - low + 1)); }

/// A fault that ends the job from within, and the process in which it occurs.
struct Fault {
  std::string text;
  int process = nobody;
};

Fault choose_fault(Random& random, Blow blow) {
  if (blow == Blow::in_a_write) {
    // Process 0 writes everything; the others write their shards.
    const int process = between(random, 0, processes - 1);
    const std::string path = process == 0 && random() % 2 == 0 ? "jsonl" : "checkpoints";
    return {"io:path=" + path + ":op=write:call=" + std::to_string(between(random, 1, 30)) + ":kill:rank=" + std::to_string(process),
            process};
  }
  if (blow == Blow::at_an_exchange) {
    const int process = between(random, 0, processes - 1);
    const std::string hit = std::to_string(between(random, 1, 400));
    return {"point=exchange.post:hit=" + hit + ":kill:rank=" + std::to_string(process), process};
  }
  if (blow == Blow::at_a_transfer) {
    const int process = between(random, 0, processes - 1);
    const std::string point = random() % 2 == 0 ? "replicas.reduce" : "replicas.gather";
    return {"point=" + point + ":hit=" + std::to_string(between(random, 1, Training::steps)) + ":kill:rank=" + std::to_string(process),
            process};
  }
  if (blow != Blow::at_a_point) return {};
  constexpr std::array<const char*, 6> points = {"after_begin",       "after_shard",  "after_manifest",
                                                 "after_commit_file", "after_rename", "after_commit"};
  const std::string point = points.at(random() % points.size());
  const int process = point == "after_shard" ? between(random, 0, processes - 1) : 0;
  return {"point=checkpoint." + point + ":hit=" + std::to_string(between(random, 1, Training::steps / 5)) +
              ":kill:rank=" + std::to_string(process),
          process};
}

/// Waits for a moment of the run. Returns false if the run ended first.
bool wait_for_moment(Job& job, Random& random, Blow blow) {
  const int step = blow == Blow::before_commit ? between(random, 0, 4) : between(random, 0, Training::steps - 1);
  if (step > 0 && !job.wait_for("step " + std::to_string(step) + "/", Training::patience)) return false;
  while (step == 0 && job.processes().size() < processes && !job.wait(Job::Seconds(0)))
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  std::this_thread::sleep_for(std::chrono::microseconds(between(random, 0, step == 0 ? 400000 : 60000)));
  return !job.wait(Job::Seconds(0));
}

/// Whether something was killed, and which process it was; no process for mpirun.
struct Strike {
  bool landed = false;
  int process = nobody;
};

Strike strike(Job& job, Random& random, Blow blow) {
  if (blow == Blow::launcher) return {::kill(job.launcher(), SIGKILL) == 0, nobody};
  const int process = blow == Blow::process_zero ? 0 : between(random, 0, processes - 1);
  const auto pid = job.process(process);
  return {pid && ::kill(*pid, SIGKILL) == 0, process};
}

/// mpirun's own message about a process that ended. It is all that can be expected of a process that the others had not connected
/// to yet, or had already disconnected from.
bool launcher_names(const std::string& err, int process) {
  const auto number = std::to_string(process);
  return has(err, "process rank " + number + " with PID") || has(err, "," + number + "]\n");
}

/// Disturbs one job. Returns false if the job ended first, so that nothing was tested.
bool end_by(const Training& training, const std::string& directory, Random& random, Blow blow) {
  const auto fault = choose_fault(random, blow);
  SCOPED_TRACE(directory + (fault.text.empty() ? "" : ", " + fault.text));
  Job job(mpirun(processes), training.words(directory),
          fault.text.empty() ? std::vector<std::string>{} : std::vector{"MILLRACE_FAULT=" + fault.text});
  Strike struck{!fault.text.empty(), fault.process};
  if (fault.text.empty() && wait_for_moment(job, random, blow)) struck = strike(job, random, blow);
  const auto end = job.wait(Training::patience);
  EXPECT_TRUE(end) << "the job hangs\n" << job.out() << job.err();
  if (!end) return true;
  EXPECT_TRUE(job.all_gone(time_to_leave)) << "processes outlive their launcher";
  const bool finished = has(end->out, "checkpoint of step " + std::to_string(Training::steps) + " is committed");
  if (end->code == 0) {
    EXPECT_TRUE(finished) << end->out << end->err;
    return false;
  }
  EXPECT_TRUE(struck.landed) << "nothing was struck, and the job ended with " << end->code << "\n" << end->err;
  if (struck.process == nobody) {
    EXPECT_EQ(end->code, 128 + SIGKILL) << end->err;
  } else {
    // Once process 0 has printed the run's description, all processes have joined; they disconnect at its end.
    const bool joined = has(end->out, "pipeline  ") && !finished;
    EXPECT_TRUE(says_lost(end->err, struck.process) || (!joined && launcher_names(end->err, struck.process)))
        << "process " << struck.process << " died" << (joined ? " in a run that had begun" : "") << "\n"
        << end->err;
  }
  return true;
}

}  // namespace

bool says_lost(const std::string& err, int process) {
  const auto number = std::to_string(process);
  return has(err, "process " + number + " on ") && has(err, "(rank " + number + ") was lost");
}

void kill_and_resume(Training& training, Blow blow, int seed) {
  Random random(static_cast<unsigned>(seed));
  SCOPED_TRACE("seed " + std::to_string(seed));
  // On a busy machine a moment near the end may come too late, and a call number may never be reached; then another moment is
  // drawn.
  constexpr int attempts = 6;
  std::string directory;
  bool struck = false;
  for (int attempt = 0; attempt < attempts && !struck; ++attempt) {
    directory = "run-" + std::to_string(seed) + "-" + std::to_string(attempt);
    struck = end_by(training, directory, random, blow);
  }
  ASSERT_TRUE(struck) << "nothing was struck in " << attempts << " attempts";
  const auto again = training.run(processes, directory);
  EXPECT_EQ(again.code, 0) << again.out << again.err;
  const auto result = training.result(directory);
  EXPECT_EQ(result.hash, training.undisturbed().hash);
  EXPECT_EQ(result.metrics, training.undisturbed().metrics);
}

}  // namespace millrace::tests
