#include "actors/training.hpp"

#include <caf/actor_system.hpp>
#include <chrono>
#include <csignal>
#include <future>
#include <optional>
#include <utility>

#include "actors/coordinator_actor.hpp"
#include "actors/device_placement.hpp"
#include "actors/pipeline.hpp"
#include "actors/run_directory.hpp"
#include "actors/run_setup.hpp"
#include "actors/telemetry.hpp"
#include "cluster/affinity.hpp"
#include "cluster/versions.hpp"
#include "kernels/base/check.hpp"
#include "kernels/base/cpu_features.hpp"
#include "kernels/cpu/onednn_version.hpp"
#include "runtime/data/byte_tokenizer.hpp"
#include "runtime/data/mapped_file.hpp"
#include "runtime/io/fault.hpp"
#include "runtime/io/file_system.hpp"
#include "runtime/io/hash.hpp"
#include "runtime/io/hash_recorder.hpp"

namespace millrace::actors {
namespace {

volatile std::sig_atomic_t stop_signal = 0, profile_signal = 0;
void note_signal(int signal) { (signal == SIGUSR2 ? profile_signal : stop_signal) = 1; }

/// Once for each signal.
bool profile_asked() {
  const bool asked = profile_signal != 0;
  if (asked) profile_signal = 0;
  return asked;
}

/// How a run begins: what process 0 found, told to all.
struct Beginning {
  std::int64_t step = 0;     // finished
  std::int64_t threads = 0;  // of each rank
  std::string checkpoint;    // folder; empty: from the seed or the model's folder

  [[nodiscard]] std::string text() const { return fmt::format("{} {} {}", step, threads, checkpoint); }
  static Beginning from_text(const std::string& text) {
    Beginning beginning;
    const auto first = text.find(' '), second = text.find(' ', first + 1);
    beginning.step = std::stoll(text.substr(0, first));
    beginning.threads = std::stoll(text.substr(first + 1, second - first - 1));
    beginning.checkpoint = text.substr(second + 1);
    return beginning;
  }
};

std::int64_t resolve_threads(const Session& session, std::int64_t wanted, const runtime::CheckpointReader* checkpoint) {
  if (wanted > 0) return wanted;
  if (checkpoint != nullptr && noted_threads(*checkpoint) > 0) return noted_threads(*checkpoint);
  return cluster::automatic_threads(session.topology(), session.launch(), static_cast<int>(session.cores().size()));
}

std::string instruction_set() { return kernels::cpu_features().arithmetic(); }

std::string libraries(const RunSettings& settings) {
  const auto cpu = kernels::cpu::onednn_version() + ", " + cluster::mpi_version();
  return kernels::device_kind(settings.device) == kernels::DeviceKind::cpu ? cpu : cpu + ", " + kernels::cuda_libraries();
}

using Notes = std::map<std::string, std::string>;

/// What the bits of a run depend on beside its identity: noted in checkpoints, free to change at a resume.
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

/// " | 2 x NVIDIA H200": those of process 0's host.
std::string gpus_text(const RunSettings& settings) {
  if (kernels::device_kind(settings.device) == kernels::DeviceKind::cpu) return "";
  const auto devices = kernels::cuda_devices();
  return devices.empty() ? "" : fmt::format(" | {} x {}", devices.size(), devices.front().name);
}

/// Bytes as text: what no terminal should see is shown as a dot.
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

void introduce(Telemetry& telemetry, const RunSettings& settings, const PipelinePlan& plan, const Session& session,
               const Beginning& beginning, const DatasetBatches& batches, std::int64_t evaluation_microbatches) {
  auto& reporter = telemetry.reporter();
  std::int64_t parameters = 0;
  for (const auto& parameter : plan.parameters) parameters += parameter.shape.elements();
  reporter.say(fmt::format("model     {} | {} parameters | {} layers, hidden {}, vocabulary {} | {}", plan.model.family,
                           count_text(static_cast<double>(parameters)), plan.model.layers, plan.model.hidden_size, plan.model.vocab_size,
                           settings.train.dtype));
  reporter.say(fmt::format("data      {} tokens{} in {} files, {} files held out ({} microbatches an evaluation)",
                           count_text(static_cast<double>(batches.dataset().train->size())),
                           batches.dataset().format.empty() ? "" : " (" + batches.dataset().format + ")", batches.dataset().train_files,
                           batches.dataset().held_out_files, evaluation_microbatches));
  reporter.say(fmt::format("pipeline  {} ranks in {} processes, {} | {} | {} microbatches of {} x {} tokens", plan.ranks(),
                           session.topology().processes(), plan.schedule.name, plan.layout_text(), settings.train.microbatches,
                           settings.train.batch, settings.train.sequence));
  reporter.say(fmt::format("machine   {} | {} threads a rank{}", instruction_set(), beginning.threads, gpus_text(settings)));
  if (!settings.directory.empty())
    reporter.say(fmt::format("run       {}{}", settings.directory,
                             beginning.checkpoint.empty() ? "" : fmt::format(" | resumes after step {}", beginning.step)));
  if (const auto url = telemetry.status_url(); !url.empty()) reporter.say(fmt::format("status    {}", url));
}

}  // namespace

void note_signals() {
  struct sigaction action {};
  action.sa_handler = note_signal;
  action.sa_flags = SA_RESTART;
  for (const int signal : {SIGUSR1, SIGUSR2, SIGTERM}) sigaction(signal, &action, nullptr);
}

void train(Session& session, const RunSettings& settings) {
  runtime::report_lost_data();
  auto server = status_server(session, settings);  // a port that is taken ends the run before it begins
  const auto plan = make_plan(settings.plan_request());
  learning_rate(settings.train).validate();
  const DatasetBatches batches(runtime::open_dataset(settings.data, settings.model.vocab_size), batch_shape(settings));
  std::int64_t evaluation_microbatches = batches.evaluation_microbatches();
  if (settings.evaluate.batches > 0) evaluation_microbatches = std::min(evaluation_microbatches, settings.evaluate.batches);

  // Process 0 finds where the run stands; all others hear of it.
  std::unique_ptr<RunDirectory> directory;
  Beginning beginning;
  if (session.leads()) {
    if (!settings.directory.empty()) directory = std::make_unique<RunDirectory>(settings);
    const auto* checkpoint = directory ? directory->checkpoint() : nullptr;
    beginning.threads = resolve_threads(session, settings.train.threads, checkpoint);
    if (checkpoint != nullptr) {
      beginning.step = static_cast<std::int64_t>(checkpoint->step());
      beginning.checkpoint = checkpoint->folder();
    }
  }
  const bool records = settings.record == "hashes";
  MILLRACE_CHECK(!records || !settings.directory.empty(), ExitCode::config, "actors.training",
                 "run.record = \"hashes\" without run.directory, wanted a folder to record in");
  if (session.leads() && records) runtime::forget_hashes(settings.directory, beginning.step);
  beginning = Beginning::from_text(session.broadcast(beginning.text()));
  const auto identity = run_identity(settings, plan, batches, beginning.threads);
  if (directory) directory->check_identity(identity);

  RankNeeds needs;
  needs.threads = static_cast<int>(beginning.threads);
  needs.evaluation_microbatches = evaluation_microbatches;
  needs.staging = !settings.directory.empty();
  needs.logits = settings.sample.tokens > 0;
  place_on_devices(needs, session, settings);
  Pipeline pipeline(session, plan, needs);
  {
    std::optional<runtime::CheckpointReader> checkpoint;
    if (!beginning.checkpoint.empty()) checkpoint.emplace(beginning.checkpoint);
    for (auto* rank : pipeline.ranks()) initialize(*rank, settings, checkpoint ? &*checkpoint : nullptr);
  }

  Telemetry telemetry(session, settings, plan, needs, pipeline, beginning.step, directory ? directory->metrics(beginning.step) : nullptr,
                      std::move(server));
  auto& reporter = telemetry.reporter();
  std::promise<Ending> outcome;
  Pipeline::Start start;
  start.batches = &batches;
  start.first_step = beginning.step;
  start.steps = settings.train.steps;
  start.train = settings.train;
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
    setup.coordinator = coordinator_setup(settings, plan, batches, beginning.step, evaluation_microbatches);
    setup.reporter = &reporter;
    setup.store = directory ? &directory->store() : nullptr;
    for (const auto& parameter : plan.parameters)
      setup.state_bytes += 3 * sizeof(float) * static_cast<std::uint64_t>(parameter.shape.elements());
    setup.to_ranks = std::move(to_ranks);
    setup.checkpoint = checkpoint;
    setup.text_of = text_of;
    setup.stop_requested = [] { return stop_signal != 0; };
    setup.finished = [&outcome](ExitCode code, const std::string& message) { outcome.set_value({code, message}); };
    return pipeline.system().spawn<CoordinatorActor>(setup);
  };

  // All processes are on one config, plan, data and build before the first kernel.
  std::map<std::string, std::string> hashes{{"config", runtime::hash_of(settings.text).hex()},
                                            {"plan", runtime::hash_of(plan.text()).hex()},
                                            {"build", settings.build},
                                            {"instruction set", instruction_set()}};
  hashes["data"] = batches.dataset().fingerprint;
  session.control().agree(hashes);
  if (session.leads()) introduce(telemetry, settings, plan, session, beginning, batches, evaluation_microbatches);
  if (directory && directory->checkpoint() != nullptr) warn_of_changes(reporter, *directory->checkpoint(), arithmetic);

  pipeline.start(start);
  if (session.leads()) {
    Ending ending;
    try {
      telemetry.serve();
      ending = telemetry.oversee(outcome.get_future(), profile_asked);
    } catch (const Error& error) {
      ending = {error.code(), error.what()};
    } catch (const std::exception& error) {
      ending = {ExitCode::internal, error.what()};
    }
    // Not thrown: the pipeline's actors are alive and its destructor would wait for them.
    if (ending.first != ExitCode::ok) session.fail(ending.first, ending.second);
    if (!ending.second.empty()) reporter.say(ending.second);
  }
  pipeline.wait();
  telemetry.close();
  if (settings.examine) settings.examine(pipeline);
  pipeline.close();
}

}  // namespace millrace::actors
