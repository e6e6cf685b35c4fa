#include "actors/jobs/training.hpp"

#include <caf/actor_system.hpp>
#include <caf/send.hpp>
#include <chrono>
#include <future>
#include <optional>
#include <utility>

#include "actors/coordinator_actor.hpp"
#include "actors/jobs/data_content.hpp"
#include "actors/jobs/machine_peak.hpp"
#include "actors/jobs/run_directory.hpp"
#include "actors/jobs/run_setup.hpp"
#include "actors/pipeline.hpp"
#include "actors/rank/device_placement.hpp"
#include "actors/save_messages.hpp"
#include "actors/setup/run_signals.hpp"
#include "actors/telemetry/telemetry.hpp"
#include "cluster/host/affinity.hpp"
#include "cluster/host/console.hpp"
#include "cluster/host/host_cores.hpp"
#include "cluster/host/log.hpp"
#include "cluster/host/versions.hpp"
#include "kernels/base/check.hpp"
#include "kernels/base/cpu_features.hpp"
#include "kernels/cpu/onednn_version.hpp"
#include "runtime/data/byte_tokenizer.hpp"
#include "runtime/data/mapped_file.hpp"
#include "runtime/io/fault.hpp"
#include "runtime/io/file_system.hpp"
#include "runtime/io/hash.hpp"
#include "runtime/io/hash_recorder.hpp"
#include "runtime/optimizers/learning_rate.hpp"
#include "runtime/units.hpp"

namespace millrace::actors {
namespace {

/// How a run begins: determined by process 0 and broadcast.
struct Beginning {
  std::int64_t step = 0;     // number of finished steps
  std::int64_t threads = 0;  // per rank
  bool whole = false;        // nothing is held out, as in the run that wrote the checkpoint
  std::string checkpoint;    // its folder; empty: start from the seed or the model's folder

  [[nodiscard]] std::string text() const { return fmt::format("{} {} {} {}", step, threads, whole ? 1 : 0, checkpoint); }
  static Beginning from_text(const std::string& text) {
    Beginning beginning;
    const auto first = text.find(' '), second = text.find(' ', first + 1), third = text.find(' ', second + 1);
    beginning.step = std::stoll(text.substr(0, first));
    beginning.threads = std::stoll(text.substr(first + 1, second - first - 1));
    beginning.whole = text.substr(second + 1, third - second - 1) == "1";
    beginning.checkpoint = text.substr(third + 1);
    return beginning;
  }
};

std::int64_t resolve_threads(const Session& session, std::int64_t wanted, const runtime::CheckpointReader* checkpoint) {
  if (wanted > 0) return wanted;
  if (checkpoint != nullptr && noted_threads(*checkpoint) > 0) return noted_threads(*checkpoint);
  return cluster::automatic_threads(session.topology(), session.launch(), cluster::usable_cores());
}

std::string instruction_set() { return kernels::cpu_features().arithmetic(); }

std::string libraries(const RunSettings& settings) {
  const auto cpu = kernels::cpu::onednn_version() + ", " + cluster::mpi_version();
  const auto device = kernels::device_type(kernels::device_kind(settings.device)).libraries();
  return device.empty() ? cpu : cpu + ", " + device;
}

using Notes = std::map<std::string, std::string>;

/// Settings that affect the bits of a run but are not part of its identity: recorded in checkpoints, and free to change on
/// resume.
Notes arithmetic_notes(const RunSettings& settings) {
  return {{"instruction_set", instruction_set()}, {"libraries", libraries(settings)}, {"build", settings.build}};
}

void warn_of_changes(RunReporter& reporter, const runtime::CheckpointReader& checkpoint, const Notes& now) {
  for (const auto& [name, value] : now) {
    const auto noted = checkpoint.meta().notes.find(name);
    if (noted == checkpoint.meta().notes.end() || noted->second == value) continue;
    reporter.warn(fmt::format("{} is {}, the checkpoint was written with {}: the numbers may differ from those of a run that never stopped",
                              name, value, noted->second));
  }
}

/// The GPUs of process 0's host, such as " | 2 x NVIDIA H200".
std::string gpus_text(const RunSettings& settings) {
  const auto devices = kernels::device_type(kernels::device_kind(settings.device)).devices();
  return devices.empty() ? "" : fmt::format(" | {} x {}", devices.size(), devices.front().name);
}

/// Converts bytes to text; control characters are shown as dots.
std::string text_of(const std::vector<std::int32_t>& tokens) {
  std::string text;
  for (const auto token : tokens) {
    if (token == '\n' || token == '\t' || (token >= 32 && token < 127)) {
      text += static_cast<char>(token);
    } else if (token == runtime::ByteTokenizer::end_of_document) {
      text += "\n[end of document]\n";
    } else {
      text += '.';
    }
  }
  return text;
}

/// The data of an evaluation.
struct HeldOut {
  std::int64_t microbatches = 0;  // 0: there is nothing to evaluate
  std::string text;
};

HeldOut held_out(const RunSettings& settings, const DatasetBatches& batches) {
  HeldOut result{batches.evaluation_microbatches(), batches.dataset().held_out_text};
  if (settings.evaluate.batches > 0) result.microbatches = std::min(result.microbatches, settings.evaluate.batches);
  if (result.microbatches > 0 && batches.evaluation_targets(result.microbatches) == 0) {
    result.microbatches = 0;
    result.text += ", none of which has a next one in its document";
  }
  return result;
}

/// Refuses a run that is to evaluate but cannot, or warns if the resumed run could not either.
void check_evaluation(const Session& session, const RunSettings& settings, const Beginning& beginning, const HeldOut& held_out) {
  if (settings.evaluate.every == 0 || held_out.microbatches > 0) return;
  const auto message = fmt::format(
      "evaluate.every = {}, but there is nothing to evaluate: held out is {}; expected another data.held_out, or evaluate.every = 0",
      settings.evaluate.every, held_out.text);
  MILLRACE_CHECK(beginning.step > 0, ExitCode::config, "actors.training", "{}", message);
  if (session.leads()) cluster::log_warning("{}", message);
}

/// Formats " | 4 ranks take turns on 2 cores | peak 312.0 GFLOP/s".
std::string cores_text(const Session& session, const RankResources& needs, const runtime::Machine& machine) {
  const auto teams = cluster::host_teams(session.topology(), session.launch(), cluster::usable_cores(), needs.threads);
  std::string text;
  if (needs.devices.empty() && teams.ranks > teams.cores)
    text += fmt::format(" | {} ranks take turns on {} cores", teams.ranks, teams.cores);
  if (machine.job_peak_flops > 0) text += fmt::format(" | peak {:.1f} GFLOP/s", machine.job_peak_flops * 1e-9);
  return text;
}

void introduce(Telemetry& telemetry, const RunSettings& settings, const PipelinePlan& plan, const Session& session,
               const RankResources& needs, const runtime::Machine& machine, const Beginning& beginning, const DatasetBatches& batches,
               const HeldOut& held_out) {
  auto& reporter = telemetry.reporter();
  std::int64_t parameters = 0;
  for (const auto& parameter : plan.parameters) parameters += parameter.shape.elements();
  reporter.say(fmt::format("model     {} | {} parameters | {} layers, hidden {}, vocabulary {} | {}", plan.model.family,
                           runtime::count_text(static_cast<double>(parameters)), plan.model.layers, plan.model.hidden_size,
                           plan.model.vocab_size, settings.train.dtype));
  const auto& data = batches.dataset();
  reporter.say(fmt::format("data      {} tokens{} in {} files", runtime::count_text(static_cast<double>(data.train->size())),
                           data.format.empty() ? "" : " (" + data.format + ")", data.train_files));
  reporter.say(fmt::format("held out  {}{}", held_out.text,
                           held_out.microbatches > 0 ? fmt::format(" | {} microbatches an evaluation", held_out.microbatches) : ""));
  reporter.say(fmt::format("pipeline  {} ranks in {} processes, {} | {} | {} microbatches of {} x {} tokens", plan.ranks(),
                           session.topology().processes(), plan.schedule.name, plan.layout_text(), settings.train.microbatches,
                           settings.train.batch, settings.train.sequence));
  reporter.say(fmt::format("machine   {} | {} threads a rank{}{}", instruction_set(), beginning.threads,
                           cores_text(session, needs, machine), gpus_text(settings)));
  if (!settings.directory.empty())
    reporter.say(fmt::format("run       {}{}", settings.directory,
                             beginning.checkpoint.empty() ? "" : fmt::format(" | resumes after step {}", beginning.step)));
  if (const auto url = telemetry.status_url(); !url.empty()) reporter.say(fmt::format("status    {}", url));
}

/// Waits until the last lines are read (by a pager or a stopped terminal), unless a signal asks to stop.
void show_rest() {
  constexpr auto look_again = std::chrono::milliseconds(200);
  while (!cluster::console().out.drain(look_again) && !stop_asked()) continue;
}

}  // namespace

void train(Session& session, const RunSettings& settings) {
  runtime::report_lost_data();
  auto server = status_server(session, settings);  // if the port is in use, the run ends before it begins
  const auto plan = make_plan(settings.plan_request());
  runtime::learning_rate(settings.train).validate();
  std::optional<DatasetBatches> opened(std::in_place, open_data(settings, false), batch_shape(settings));

  // Process 0 determines the state from which the run continues, and broadcasts it.
  std::unique_ptr<RunDirectory> directory;
  Beginning beginning;
  if (session.leads()) {
    if (!settings.directory.empty()) directory = std::make_unique<RunDirectory>(settings);
    const auto* checkpoint = directory ? directory->checkpoint() : nullptr;
    beginning.threads = resolve_threads(session, settings.train.threads, checkpoint);
    if (checkpoint != nullptr) {
      beginning.step = static_cast<std::int64_t>(checkpoint->step());
      beginning.checkpoint = checkpoint->folder();
      beginning.whole = held_nothing_out(checkpoint->meta().identity);
    }
  }
  const bool records = settings.record == "hashes";
  MILLRACE_CHECK(!records || !settings.directory.empty(), ExitCode::config, "actors.training",
                 "run.record = \"hashes\" without run.directory, expected a folder to record in");
  if (session.leads() && records) runtime::forget_hashes(settings.directory, beginning.step);
  beginning = Beginning::from_text(session.broadcast(beginning.text()));
  if (beginning.whole) opened.emplace(open_data(settings, true), batch_shape(settings));
  const DatasetBatches& batches = *opened;
  const HeldOut held = held_out(settings, batches);
  check_evaluation(session, settings, beginning, held);
  auto identity = run_identity(settings, plan, batches, beginning.threads);
  if (directory) directory->check_identity(identity);
  const auto content = agree_on_content(session, batches.dataset().files, batches.dataset().fingerprint, settings.directory,
                                        !settings.directory.empty(), [&](const DataContent& found) {
                                          if (directory) directory->check_content(found);
                                        });
  identity[data_content_key] = content.hash();
  if (!settings.directory.empty() && !content.contents.empty()) record_content(content, settings.directory, session.launch().process);

  RankResources needs;
  needs.threads = static_cast<int>(beginning.threads);
  needs.evaluation_microbatches = held.microbatches;
  needs.staging = !settings.directory.empty();
  needs.logits = settings.sample.tokens > 0;
  place_on_devices(needs, session, settings);
  // Measured before the arenas exist, so that its memory does not add to theirs, and while the other processes wait for this one.
  const auto machine = session.leads() ? machine_peak(session, settings, plan, needs) : runtime::Machine();
  Pipeline pipeline(session, plan, needs);
  {
    std::optional<runtime::CheckpointReader> checkpoint;
    if (!beginning.checkpoint.empty()) checkpoint.emplace(beginning.checkpoint);
    for (auto* rank : pipeline.ranks()) initialize(*rank, settings, checkpoint ? &*checkpoint : nullptr);
  }

  Telemetry telemetry(session, settings, plan, needs, pipeline, beginning.step, machine,
                      directory ? directory->metrics(beginning.step) : nullptr, std::move(server));
  auto& reporter = telemetry.reporter();
  std::promise<Ending> outcome;
  caf::actor coordinator;
  Pipeline::Start start;
  start.batches = &batches;
  start.first_step = beginning.step;
  start.steps = settings.train.steps;
  if (records) start.hash_directory = settings.directory;
  if (!settings.directory.empty()) start.nan_folder = runtime::join_path(settings.directory, "nan");
  start.checkpoint.store = directory ? &directory->store() : nullptr;
  start.checkpoint.metrics = directory ? directory->metrics(beginning.step) : nullptr;
  start.checkpoint.identity = identity;
  const auto arithmetic = arithmetic_notes(settings);
  start.checkpoint.notes = arithmetic;
  start.checkpoint.notes["train.threads"] = std::to_string(beginning.threads);
  start.checkpoint.notes["layout"] = plan.layout_text();
  start.checkpoint.samples_per_step = settings.train.batch * settings.train.microbatches;
  start.coordinator = [&](std::function<void(const ToRank&)> to_ranks, caf::actor checkpoint) {
    CoordinatorActorSetup setup;
    setup.coordinator = coordinator_setup(settings, plan, batches, beginning.step, held.microbatches);
    setup.coordinator.evaluation_recorded = directory && directory->is_evaluated(beginning.step);
    setup.reporter = &reporter;
    for (const auto& parameter : plan.parameters)
      setup.state_bytes += (1 + plan.optimizer->states().size()) * sizeof(float) * static_cast<std::uint64_t>(parameter.shape.elements());
    setup.to_ranks = std::move(to_ranks);
    setup.checkpoint = checkpoint;
    setup.text_of = text_of;
    setup.stop_requested = stop_asked;
    setup.finished = [&outcome](ExitCode code, const std::string& message) { outcome.set_value({code, message}); };
    return coordinator = pipeline.system().spawn<CoordinatorActor, caf::detached>(setup);
  };

  // Checks that all processes have the same config, plan, data and build, before the first kernel.
  std::map<std::string, std::string> hashes{{"config", runtime::hash_of(settings.text).hex()},
                                            {"plan", runtime::hash_of(plan.text()).hex()},
                                            {"build", settings.build},
                                            {"instruction set", instruction_set()}};
  session.control().agree(hashes);
  if (session.leads()) introduce(telemetry, settings, plan, session, needs, machine, beginning, batches, held);
  if (directory && directory->checkpoint() != nullptr) warn_of_changes(reporter, *directory->checkpoint(), arithmetic);

  pipeline.start(start);
  if (session.leads()) {
    Ending ending;
    try {
      telemetry.serve();
      ending = telemetry.oversee(outcome.get_future(), [&coordinator] { caf::anon_send(coordinator, StopSoon{}); });
    } catch (const Error& error) {
      ending = {error.code(), error.what()};
    } catch (const std::exception& error) {
      ending = {ExitCode::internal, error.what()};
    }
    // Not thrown: the pipeline's actors are running and its destructor would wait for them.
    if (ending.first != ExitCode::ok) session.fail(ending.first, ending.second);
    if (!ending.second.empty()) reporter.say(ending.second);
  }
  coordinator = nullptr;  // the actor system ends with the last handle
  pipeline.wait();
  telemetry.close();
  if (settings.examine) settings.examine(pipeline);
  pipeline.close();
  if (session.leads()) show_rest();
}

}  // namespace millrace::actors
