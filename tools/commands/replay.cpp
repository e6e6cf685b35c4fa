// millrace replay: runs one step of a run again from the nearest checkpoint, bit for bit; or a single stage of it.

#include <algorithm>
#include <map>
#include <memory>

#include "actors/jobs/stage_replay.hpp"
#include "cluster/host/affinity.hpp"
#include "kernels/base/check.hpp"
#include "kernels/base/count.hpp"
#include "runtime/io/file_system.hpp"
#include "runtime/io/metrics_file.hpp"
#include "runtime/median.hpp"
#include "tools/commands/command.hpp"
#include "tools/commands/recorded_run.hpp"

namespace millrace::tools {

namespace {

constexpr const char* replay_component = "millrace replay";

bool print_step(const std::map<std::uint64_t, runtime::ExactStep>& recorded, const actors::StepRecord& record) {
  const runtime::ExactStep found{runtime::hexadecimal(record.loss), runtime::hexadecimal(record.gradient_norm)};
  const auto there = recorded.find(static_cast<std::uint64_t>(record.step));
  const bool equal = there != recorded.end() && there->second == found;
  fmt::print("step {} | loss {:.6f} ({}) | gnorm {:.4f} ({}) | {}\n", record.step, record.loss, found.loss, record.gradient_norm,
             found.gradient_norm,
             there == recorded.end() ? "not in metrics.jsonl"
             : equal                 ? "as recorded"
                     : fmt::format("DIFFERS from the recorded loss {}, gnorm {}", there->second.loss, there->second.gradient_norm));
  return there == recorded.end() || equal;
}

bool replay_stage(actors::Rank& rank, const actors::StageRecording& recording, long repeats) {
  bool equal = true;
  std::map<std::string, std::vector<double>> times;
  for (long turn = 0; turn < repeats; ++turn) {
    actors::ReplayedRound round;
    rank.worker().run([&] { round = actors::replay(rank, recording); });
    for (std::size_t at = 0; at < recording.calls.size(); ++at) {
      const auto& execute = recording.calls[at].execute;
      const auto& action = execute.action;
      const char letter = runtime::letter_of(action.kind);
      const auto name = execute.segments == 1 ? std::string(1, letter)
                                              : fmt::format("{}, segment {:>2} of {}", letter, execute.segment, execute.segments);
      times[name].push_back(round.milliseconds[at]);
      if (round.outputs[at] == recording.calls[at].output) continue;
      if (equal) fmt::print("{} DIFFERS: {} now, {} in the whole pipeline\n", action, round.outputs[at], recording.calls[at].output);
      equal = false;
    }
    if (round.gradients != recording.gradients) {
      if (equal) fmt::print("gradients DIFFER: {} now, {} in the whole pipeline\n", round.gradients, recording.gradients);
      equal = false;
    }
  }
  for (const auto& [kind, taken] : times)
    fmt::print("{}  {}, median {:.3f} ms, minimum {:.3f} ms\n", kind, counted(taken.size(), "time"), runtime::median(taken),
               *std::min_element(taken.begin(), taken.end()));
  const auto actions = std::ranges::count_if(recording.calls, [](const auto& call) { return call.execute.segment == 0; });
  fmt::print("stage {} alone: {}, outputs and gradients {} ({})\n", recording.stage, counted(actions, "action"),
             equal ? "as in the whole pipeline" : "DIFFER", recording.gradients);
  return equal;
}

int replay(const Arguments& parsed) {
  MILLRACE_CHECK(!parsed.positional().empty() && parsed.given("step"), ExitCode::usage, replay_component,
                 "expected RUN_DIRECTORY --step N");
  MILLRACE_CHECK(!parsed.given("repeat") || parsed.given("stage"), ExitCode::usage, replay_component,
                 "--repeat without --stage, expected both");
  const std::string directory = parsed.positional().front();
  cluster::widen_affinity();
  const auto [settings, model_warnings] = recorded_run(parsed.positional(), replay_component);
  print_warnings(model_warnings);
  const long step = parsed.integer("step", 1, settings.train.steps);
  const auto recorded = runtime::read_exact_steps(runtime::join_path(directory, "metrics.jsonl"));
  const auto run = run_before(settings, directory, step);
  const auto& plan = run->plan();
  MILLRACE_CHECK(!parsed.given("stage") || !plan.divides_update(), ExitCode::usage, replay_component,
                 "--stage in a run whose copies divide the update (mesh.shard = {}): while its stages compute, they add gradients of each "
                 "other, expected a run without; mesh.data=1 mesh.shard=none behind the options replays it in one copy, to the same bits",
                 plan.shard_text());
  const long stage = parsed.integer("stage", 0, plan.stages() - 1);
  auto setup = run->setup();
  fmt::print("from {}, {}, schedule {}, {} per rank\n",
             setup.checkpoint != nullptr ? fmt::format("the checkpoint of step {}", setup.first_step) : "the run's beginning",
             counted(plan.ranks(), "rank"), plan.schedule.name, counted(setup.threads, "thread"));

  bool equal = true;
  actors::StageRecording recording;
  std::shared_ptr<const actors::StateCopy> beginning;
  {
    actors::Stepper stepper(setup);
    actors::RecordingRunner* recorder = nullptr;
    while (!stepper.ended() && stepper.step() < step) {
      if (parsed.given("stage") && stepper.step() + 1 == step && recorder == nullptr) {
        beginning = stepper.beginning();
        auto runner = std::make_unique<actors::RecordingRunner>(runtime::StageId(static_cast<int>(stage)));
        recorder = runner.get();
        stepper.rank(plan.schedule.placement.rank_of(recorder->recording().stage)).replace_runner(std::move(runner));
      }
      const auto at = stepper.step();
      const auto rank = stepper.next_rank();
      MILLRACE_CHECK(rank != runtime::no_rank, ExitCode::internal, replay_component, "no rank can continue in step {}", at + 1);
      stepper.run(rank);
      if (stepper.step() != at || stepper.ended()) equal &= print_step(recorded, *stepper.newest());
    }
    if (recorder != nullptr) recording = recorder->recording();
  }
  if (parsed.given("stage")) {
    setup.state = beginning.get();
    setup.first_step = beginning->step;
    const actors::Stepper stepper(setup);
    equal &=
        replay_stage(stepper.rank(plan.schedule.placement.rank_of(recording.stage)), recording, parsed.integer("repeat", 1, 1'000'000));
  }
  return equal ? 0 : 1;
}

}  // namespace

Command replay_command() {
  return {.name = "replay",
          .words = "RUN_DIRECTORY [key=value …]",
          .summary = "Run a finished step again, bit for bit, from the nearest checkpoint; or one stage of it alone.",
          .notes = "Keys may change the layout (pipeline.ranks=1), not the numbers. Nothing is written. Ends with 1 if a bit differs.",
          .options = {{.name = "step",
                       .value = "N",
                       .help = "The step, counted from 1. The steps between the nearest checkpoint and it are run too."},
                      {.name = "stage",
                       .value = "S",
                       .help = "Then run this stage of it alone, from recorded inputs: for perf, a sanitizer, or a kernel under study.",
                       .fallback = "0"},
                      {.name = "repeat", .value = "R", .help = "With --stage: times to run it.", .fallback = "1"}},
          .offer = offer_folders | offer_assignments,
          .run = replay};
}

}  // namespace millrace::tools
