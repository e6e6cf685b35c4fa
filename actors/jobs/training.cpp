#include "actors/jobs/training.hpp"

#include <caf/actor_system.hpp>
#include <caf/send.hpp>
#include <chrono>
#include <future>
#include <optional>
#include <utility>

#include "actors/coordinator_actor.hpp"
#include "actors/jobs/config_agreement.hpp"
#include "actors/jobs/data_content.hpp"
#include "actors/jobs/machine_peak.hpp"
#include "actors/jobs/resume_advice.hpp"
#include "actors/jobs/run_beginning.hpp"
#include "actors/jobs/run_directory.hpp"
#include "actors/jobs/run_introduction.hpp"
#include "actors/jobs/run_setup.hpp"
#include "actors/jobs/run_tokenizer.hpp"
#include "actors/jobs/sample_text.hpp"
#include "actors/jobs/start_source.hpp"
#include "actors/pipeline.hpp"
#include "actors/rank/device_placement.hpp"
#include "actors/save_messages.hpp"
#include "actors/setup/run_signals.hpp"
#include "actors/setup/token_compression.hpp"
#include "actors/telemetry/telemetry.hpp"
#include "cluster/host/console.hpp"
#include "cluster/host/log.hpp"
#include "kernels/base/check.hpp"
#include "kernels/base/system_refusal.hpp"
#include "runtime/io/file_system.hpp"
#include "runtime/io/hash.hpp"
#include "runtime/io/hash_recorder.hpp"
#include "runtime/optimizers/learning_rate.hpp"

namespace millrace::actors {
namespace {

/// Why nothing is evaluated: "held out is 1 file with 4 tokens, none of which …", or the reason alone why nothing is held out.
std::string why_nothing_is_evaluated(const HeldOut& held_out) {
  constexpr std::string_view nothing = "nothing: ";
  return held_out.text.starts_with(nothing) ? held_out.text.substr(nothing.size()) : "held out is " + held_out.text;
}

/// Refuses a run that is to evaluate but cannot, or warns if the resumed run could not either. A run that would evaluate only at its end
/// goes on without, with a warning, unless data.held_out = 0 says so.
void check_evaluation(const Session& session, const RunSettings& settings, const RunBeginning& beginning, const HeldOut& held_out) {
  if (held_out.microbatches > 0) return;
  const runtime::EvaluateConfig& evaluate = settings.evaluate;
  if (evaluate.every == 0) {
    if (session.leads() && !settings.data_source && !beginning.whole && settings.data.evaluates())
      cluster::log_warning(
          "nothing is evaluated: {}; name files with data.validation, or choose another data.held_out (0 says that nothing is "
          "to be held out)",
          why_nothing_is_evaluated(held_out));
    return;
  }
  const auto message = fmt::format(
      "evaluate.every = {}, but there is nothing to evaluate: {}; expected another data.held_out, data.validation, or "
      "evaluate.every = 0",
      evaluate.every, why_nothing_is_evaluated(held_out));
  MILLRACE_CHECK(beginning.step > 0, ExitCode::config, "actors.training", "{}", message);
  if (session.leads()) cluster::log_warning("{}", message);
}

/// A run has one source of data, which counts the targets of all losses.
void check_source(const RunSettings& settings) {
  if (!settings.data_source) return;
  for (const auto& [key, files] : {std::pair("data.text", &settings.data.text), {"data.tokens", &settings.data.tokens}})
    MILLRACE_CHECK(files->empty(), ExitCode::config, "actors.training",
                   "{} = {}, but this program reads data of its own (RunSettings::data_source), expected neither data.text nor data.tokens",
                   key, fmt::join(*files, ","));
  MILLRACE_CHECK(settings.model.mtp_layers == 0 || settings.data_source->mtp_targets(0) > 0, ExitCode::config, "actors.training",
                 "model.mtp_layers = {}, but the program's data source counts no targets for them, expected DataSource::mtp_targets()",
                 settings.model.mtp_layers);
}

/// The coordinator of a training run, which also evaluates, saves and samples.
CoordinatorSetup whole_run(const RunSettings& settings, const PipelinePlan& plan, const DataSource& batches, std::int64_t first_step,
                           std::int64_t evaluation_microbatches, const SampleText& sample) {
  auto setup = coordinator_setup(settings.train, plan, batches, first_step);
  setup.evaluate = settings.evaluate;
  setup.evaluation_microbatches = evaluation_microbatches;
  setup.evaluation_targets = batches.evaluation_targets(evaluation_microbatches);
  setup.evaluation_mtp_targets = batches.evaluation_mtp_targets(evaluation_microbatches, 0);
  if (const int module = plan.losses.mtp_eval_module; module > 0)
    setup.evaluation_mtp_eval_targets = batches.evaluation_mtp_targets(evaluation_microbatches, module);
  setup.checkpoint = settings.checkpoint;
  setup.writes_checkpoints = !settings.directory.empty();
  setup.sample = settings.sample;
  setup.prompt = sample.prompt();
  return setup;
}

RankResources resources(Session& session, const RunSettings& settings, std::int64_t threads, std::int64_t evaluation_microbatches,
                        std::shared_ptr<const runtime::TokenCompression> compression) {
  RankResources needs;
  needs.threads = static_cast<int>(threads);
  needs.evaluation_microbatches = evaluation_microbatches;
  needs.staging = !settings.directory.empty();
  needs.logits = settings.sample.tokens > 0;
  needs.compression = std::move(compression);
  place_on_devices(needs, session, kernels::device_kind(settings.device), settings.cuda, settings.directory);
  return needs;
}

/// The value of start_key of this run, new or resumed.
std::string start_identity_of(const runtime::TrainConfig& train, const RunBeginning& beginning, const RunDirectory& directory) {
  if (const auto* const checkpoint = directory.checkpoint()) return resumed_start_identity(train.start_from, recorded_start(*checkpoint));
  return beginning.source.empty() ? "" : start_identity(runtime::CheckpointReader(beginning.source));
}

/// Checks that the data of all processes, and of the run that is resumed, are the same. Returns the run's complete identity.
IdentityKeys agree_on_identity(Session& session, const RunSettings& settings, const PipelinePlan& plan, const DataSource& batches,
                               const RunBeginning& beginning, const runtime::TokenCompression* compression, const RunDirectory* directory) {
  auto identity = run_identity(settings.identity.keys, plan, batches, compression);
  if (directory != nullptr) {
    const auto begun = start_identity_of(settings.train, beginning, *directory);
    if (const auto* const checkpoint = directory->checkpoint()) check_resumed_start(*checkpoint, settings.train.start_from, begun);
    if (!begun.empty()) identity[start_key] = begun;
    directory->check_identity(identity, batches.files());
  }
  const auto check = [&](const DataContent& found) {
    if (directory != nullptr) directory->check_content(found);
  };
  const bool writes = !settings.directory.empty();
  const auto content = agree_on_content(session, batches.files(), batches.fingerprint(), settings.directory, writes, check);
  identity[data_content_key] = content.hash();
  if (writes && !content.contents.empty()) record_content(content, settings.directory, session.launch().process);
  return identity;
}

void initialize_all(Pipeline& pipeline, const RunBeginning& beginning, const RunSettings& settings) {
  const bool resumes = !beginning.checkpoint.empty();
  const auto& folder = resumes ? beginning.checkpoint : beginning.source;
  std::optional<runtime::CheckpointReader> checkpoint;
  if (!folder.empty()) checkpoint.emplace(folder);
  MILLRACE_CHECK(beginning.source.empty() || checkpoint->state_hash().hex() == beginning.source_hash, ExitCode::start, "actors.training",
                 "{} = {}: its state has the hash {}, that of process 0 has {}: the hosts see different files", start_key, folder,
                 checkpoint->state_hash().hex(), beginning.source_hash);
  const InitialState state{checkpoint ? &*checkpoint : nullptr, resumes || takes_state(settings.train), settings.model_from,
                           settings.overruled_model, settings.train.seed};
  for (auto* rank : pipeline.ranks()) initialize(*rank, state);
}

/// Before the keys of the run are compared, whose advice would be of no use to a run of fewer steps.
void check_steps(const RunSettings& settings, const RunBeginning& beginning) {
  MILLRACE_CHECK(beginning.step <= settings.train.steps, ExitCode::config, "actors.training",
                 "train.steps = {}, but the run has made {} ({}); expected {} or more", settings.train.steps,
                 counted(beginning.step, "step"), beginning.checkpoint, beginning.step);
}

/// Whether a run that is started again has made all its steps and recorded its result.
bool is_finished(const RunSettings& settings, const RunBeginning& beginning, const HeldOut& held_out) {
  return beginning.step == settings.train.steps && (held_out.microbatches == 0 || beginning.evaluated);
}

/// The arguments for starting all actors except the coordinator. `directory` is null in processes other than 0, and in a run that
/// writes nothing.
Pipeline::Start start_of(const RunSettings& settings, const PipelinePlan& plan, const RunBeginning& beginning, const BatchProvider& batches,
                         RunDirectory* directory, IdentityKeys identity) {
  Pipeline::Start start;
  start.batches = &batches;
  start.first_step = beginning.step;
  start.steps = settings.train.steps;
  if (settings.record == "hashes") start.hash_directory = settings.directory;
  if (!settings.directory.empty()) start.nan_folder = runtime::join_path(settings.directory, "nan");
  start.checkpoint.store = directory != nullptr ? &directory->store() : nullptr;
  start.checkpoint.metrics = directory != nullptr ? directory->metrics(beginning.step) : nullptr;
  start.checkpoint.identity = std::move(identity);
  start.checkpoint.notes = arithmetic_notes(plan.device, settings.identity.build);
  start.checkpoint.notes["train.threads"] = std::to_string(beginning.threads);
  const auto* const newest = directory != nullptr ? directory->checkpoint() : nullptr;
  if (const auto folder = newest != nullptr ? noted_start(*newest) : beginning.source; !folder.empty())
    start.checkpoint.notes[start_key] = folder;
  start.checkpoint.notes["layout"] = plan.layout_text();
  start.checkpoint.microbatches = runtime::BatchRamp(settings.train);
  start.checkpoint.rows = settings.train.batch;
  return start;
}

/// In process 0, while the pipeline runs: signals, profiles, and the run's last line.
void oversee(Session& session, Telemetry& telemetry, std::future<Ending> outcome, const caf::actor& coordinator) {
  Ending ending;
  try {
    telemetry.serve();
    ending = telemetry.oversee(std::move(outcome), [&coordinator] { caf::anon_send(coordinator, StopSoon{}); });
  } catch (const std::exception& thrown) {
    const auto error = as_error(thrown, "actors.training");
    ending = {error.code(), error.what()};
  }
  // Not thrown: the pipeline's actors are running and its destructor would wait for them.
  if (ending.first != ExitCode::ok) session.fail(ending.first, ending.second);
  if (!ending.second.empty()) telemetry.reporter().say(ending.second);
}

/// Waits until the last lines are read (by a pager or a stopped terminal), unless a signal asks to stop.
void show_rest() {
  constexpr auto look_again = std::chrono::milliseconds(200);
  while (!cluster::console().out.drain(look_again) && !stop_asked()) continue;
}

}  // namespace

void train(Session& session, const RunSettings& settings) {
  runtime::report_lost_data();
  auto server = status_server(session, settings.status);  // created first: a port that is in use ends the run before it starts
  agree_on_config(session, settings.identity.text);
  const auto plan = make_plan(settings.plan_request());
  runtime::learning_rate(settings.train).validate();
  const bool records = settings.record == "hashes";
  MILLRACE_CHECK(!records || !settings.directory.empty(), ExitCode::config, "actors.training",
                 "run.record = \"hashes\" without run.directory, expected a folder to record in");

  // The state from which the run continues, and its data.
  const auto shape = batch_shape(settings.train, settings.data, settings.model);
  check_source(settings);
  const auto open = [&](bool whole) -> std::shared_ptr<const DataSource> {
    if (settings.data_source) return settings.data_source;
    return std::make_shared<DatasetBatches>(open_data(settings.data, settings.model.vocab_size, whole), shape);
  };
  auto opened = open(false);
  std::unique_ptr<RunDirectory> directory;
  if (session.leads() && !settings.directory.empty())
    directory = std::make_unique<RunDirectory>(settings.directory, settings.checkpoint.keep, settings.identity);
  const auto* const newest = directory ? directory->checkpoint() : nullptr;
  const auto beginning = agree_on_beginning(session, settings.train, plan, directory.get());
  check_steps(settings, beginning);
  if (session.leads() && records) runtime::forget_hashes(settings.directory, beginning.step);
  if (beginning.whole) opened = open(true);
  const DataSource& batches = *opened;
  const HeldOut held = held_out(settings.evaluate, batches);
  check_evaluation(session, settings, beginning, held);
  const auto compression = open_compression(settings.model, compression_source(settings.data, settings.model_from));
  auto identity = agree_on_identity(session, settings, plan, batches, beginning, compression.get(), directory.get());
  if (directory)
    for (const auto& warning : keep_tokenizer(settings.directory, settings.data, settings.model_from)) cluster::log_warning("{}", warning);

  if (is_finished(settings, beginning, held)) {
    if (session.leads())
      cluster::console().out.put(fmt::format("step {} of {}: nothing left to do ({}; {})\n", beginning.step, settings.train.steps,
                                             settings.directory, settings.continuation));
    if (session.leads()) show_rest();
    return;
  }

  std::optional<SampleText> sample;
  if (session.leads()) sample.emplace(settings);  // once the run directory has the tokenizer

  session.on_advice([directory = settings.directory] { return resume_advice(directory); });

  // The ranks of this process, with their weights.
  const auto needs = resources(session, settings, beginning.threads, held.microbatches, compression);
  // Measured before the arenas exist, so that its memory does not add to theirs.
  const auto machine = undisturbed_peak(session, settings.cuda, plan, needs);
  Pipeline pipeline(session, plan, needs);
  initialize_all(pipeline, beginning, settings);

  auto start = start_of(settings, plan, beginning, batches, directory.get(), std::move(identity));
  Telemetry telemetry(session, plan, needs, pipeline,
                      {.directory = settings.directory,
                       .tensorboard = settings.tensorboard,
                       .log = {.every = settings.log.every,
                               .columns = settings.terminal_columns,
                               .peak_flops = machine.job_peak_flops,
                               .shows_rate = settings.train.decay != "constant" || settings.train.warmup_steps > 0},
                       .build = settings.identity.build,
                       .first_step = beginning.step,
                       .steps = settings.train.steps,
                       .metrics = start.checkpoint.metrics,
                       .profiled = settings.profiled,
                       .listeners = settings.listeners},
                      std::move(server));
  std::promise<Ending> outcome;
  caf::actor coordinator;
  start.coordinator = [&](std::function<void(const ToRank&)> to_ranks, caf::actor checkpoint) {
    CoordinatorActorSetup setup;
    setup.coordinator = whole_run(settings, plan, batches, beginning.step, held.microbatches, *sample);
    if (newest != nullptr) setup.coordinator.run_state = run_state_of(*newest);
    setup.coordinator.updates_before = beginning.updates_before;
    setup.coordinator.evaluation_recorded = beginning.evaluated;
    setup.reporter = &telemetry.reporter();
    for (const auto& parameter : plan.parameters) {
      const auto matrices = plan.matrices.matrices(parameter.name, parameter.shape, parameter.stored);
      std::size_t bytes = sizeof(float);  // of an element
      for (std::size_t state = 0; state < plan.optimizer->states().size(); ++state)
        if (plan.is_trained(parameter) && plan.optimizer->keeps(state, matrices))
          bytes += kernels::size_of(plan.optimizer->states()[state].dtype);
      setup.state_bytes += bytes * static_cast<std::uint64_t>(parameter.shape.elements());
    }
    setup.to_ranks = std::move(to_ranks);
    setup.checkpoint = checkpoint;
    setup.text_of = [&sample](const std::vector<std::int32_t>& tokens) { return sample->text_of(tokens); };
    setup.stop_requested = stop_asked;
    setup.finished = [&outcome](ExitCode code, const std::string& message) { outcome.set_value({code, message}); };
    return coordinator = pipeline.system().spawn<CoordinatorActor, caf::detached>(setup);
  };

  // Checks that all processes have the same plan and build, before the first kernel.
  session.control().agree(
      {{"plan", runtime::hash_of(plan.text()).hex()}, {"build", settings.identity.build}, {"instruction set", instruction_set()}});
  if (session.leads()) introduce(telemetry, plan, session, needs, machine, beginning, batches, held, settings);
  if (newest != nullptr)
    for (const auto& warning : changed_notes(*newest, arithmetic_notes(plan.device, settings.identity.build)))
      telemetry.reporter().warn(warning);

  pipeline.start(start);
  if (directory) directory->close_checkpoint();
  if (session.leads()) oversee(session, telemetry, outcome.get_future(), coordinator);
  coordinator = nullptr;  // the actor system ends with the last handle
  pipeline.wait();
  telemetry.close();
  if (settings.examine) settings.examine(pipeline);
  pipeline.close();
  if (session.leads()) show_rest();
}

}  // namespace millrace::actors
