#include "actors/pipeline_plan.hpp"

#include <algorithm>

#include "kernels/base/check.hpp"
#include "runtime/io/file_system.hpp"
#include "runtime/program/differentiate.hpp"
#include "runtime/schedule/edge.hpp"
#include "runtime/schedule/split_backward.hpp"
#include "runtime/schedule/table.hpp"

namespace millrace::actors {
namespace {

/// What the lists may say but the actors do not do.
void check_runnable(const runtime::Schedule& schedule) {
  MILLRACE_CHECK(schedule.placement.replicas() == 1, ExitCode::config, "actors.plan",
                 "schedule {} keeps two replicas of each stage, which training does not carry out yet; use dualpipe-v", schedule.name);
}

/// pipeline.plan: a table of the user's own, which must be for these ranks, stages and microbatches.
runtime::Schedule planned_schedule(const PlanRequest& request) {
  const auto& path = request.pipeline.plan;
  auto schedule = runtime::parse_table(runtime::read_text_file(path, std::uint64_t{64} << 20, ExitCode::config), path);
  check_runnable(schedule);
  const auto check = [&](const char* key, std::int64_t wanted, std::int64_t found) {
    MILLRACE_CHECK(wanted == found, ExitCode::config, "actors.plan", "{} is a table of {} = {}, the run has {}", path, key, found, wanted);
  };
  check("pipeline.ranks", request.pipeline.ranks, schedule.placement.ranks());
  check("pipeline.ranks x pipeline.chunks", request.pipeline.ranks * request.pipeline.chunks, schedule.placement.stages());
  check("train.microbatches", request.train.microbatches, schedule.microbatches);
  return schedule;
}

std::string join(const std::vector<std::string>& words) {
  std::string text;
  for (const auto& word : words) text += (text.empty() ? "" : ",") + word;
  return text;
}

}  // namespace

PipelinePlan make_plan(const PlanRequest& request) {
  PipelinePlan plan;
  const auto& pipeline = request.pipeline;
  const auto& train = request.train;
  plan.model = request.model;
  const std::int64_t stages = pipeline.ranks * pipeline.chunks;
  const std::int64_t layers = plan.model.layers;
  MILLRACE_CHECK(!pipeline.layout.empty() || stages <= layers + 2, ExitCode::config, "actors.plan",
                 "pipeline.ranks = {} and pipeline.chunks = {} make {} stages; a model of {} layers fills {} at most (embedding and head "
                 "may be stages of their own)",
                 pipeline.ranks, pipeline.chunks, stages, layers, layers + 2);
  MILLRACE_CHECK(train.accumulators <= train.microbatches && train.microbatches % train.accumulators == 0, ExitCode::config, "actors.plan",
                 "train.accumulators = {} does not divide train.microbatches = {}", train.accumulators, train.microbatches);
  plan.layout = pipeline.layout.empty() ? layers::uniform_layout(layers, stages) : layers::parse_layout(pipeline.layout, layers, stages);

  runtime::ScheduleRequest schedule;
  schedule.name = pipeline.schedule;
  schedule.ranks = static_cast<int>(pipeline.ranks);
  schedule.chunks = static_cast<int>(pipeline.chunks);
  schedule.microbatches = static_cast<int>(train.microbatches);
  if (pipeline.warmup >= 0) schedule.warmup = runtime::one_f_one_b_warmup(schedule.ranks, static_cast<int>(pipeline.warmup));
  schedule.group = static_cast<int>(pipeline.group);
  plan.schedule = pipeline.plan.empty() ? runtime::make_schedule(schedule) : planned_schedule(request);
  check_runnable(plan.schedule);
  plan.schedule = runtime::with_one_kind_of_backward(plan.schedule);  // a stage's programs are planned for one
  plan.ledger = runtime::make_ledger(plan.schedule);
  plan.edges = runtime::edges_of(plan.schedule.placement);
  for (const auto& rank : plan.schedule.ranks)
    for (const auto& action : rank) plan.split_backward = plan.split_backward || action.kind == runtime::ActionKind::input_gradient;

  plan.parameters = layers::model_parameters(plan.model);
  plan.rematerialize = runtime::RematerializationPolicy::parse(join(request.rematerialize.policy), layers::known_labels(plan.model));
  plan.compute = runtime::compute_dtype(train);
  plan.rows = train.batch;
  plan.sequence = train.sequence;
  plan.z_loss = train.z_loss;
  plan.accumulators = static_cast<int>(train.accumulators);
  return plan;
}

std::size_t PipelinePlan::boundary_bytes() const {
  return static_cast<std::size_t>(rows * sequence * model.hidden_size) * kernels::size_of(compute);
}

std::vector<cluster::ChannelSpec> PipelinePlan::channels() const {
  std::vector<cluster::ChannelSpec> channels;
  for (const auto& edge : edges) {
    cluster::ChannelSpec spec;
    spec.id = edge.id.value;
    spec.from_rank = edge.producer_rank.value;
    spec.to_rank = edge.consumer_rank.value;
    spec.kind = edge.kind == runtime::TokenKind::activation ? cluster::ChannelKind::activation : cluster::ChannelKind::gradient;
    spec.depth = ledger.depths.at(edge.id.index());
    spec.bytes = boundary_bytes();
    channels.push_back(spec);
  }
  if (replicated_table()) {
    for (const bool to_head : {true, false}) {
      cluster::ChannelSpec spec;
      spec.id = tied_channel(to_head);
      spec.from_rank = to_head ? embedding_rank().value : head_rank().value;
      spec.to_rank = to_head ? head_rank().value : embedding_rank().value;
      spec.kind = cluster::ChannelKind::tied;
      spec.depth = 1;
      spec.bytes = static_cast<std::size_t>(model.vocab_size * model.hidden_size) * sizeof(float);
      channels.push_back(spec);
    }
  }
  return channels;
}

runtime::ProgramSet PipelinePlan::programs(runtime::StageId stage, layers::Output output, std::int64_t other_rows) const {
  layers::StageOptions options;
  options.compute = compute;
  options.rows = other_rows > 0 ? other_rows : rows;
  options.sequence = sequence;
  options.z_loss = z_loss;
  options.output = output;
  return runtime::differentiate(layers::build_stage(model, layout.at(stage.index()), options), rematerialize);
}

double PipelinePlan::model_flops(std::int64_t microbatches) const {
  double weights = 0;
  for (const auto& parameter : parameters)
    if (parameter.shape.rank() >= 2) weights += static_cast<double>(parameter.shape.elements());
  if (!model.tie_word_embeddings) weights -= static_cast<double>(model.vocab_size * model.hidden_size);  // the embedding is a lookup
  const double tokens = static_cast<double>(microbatches * rows * sequence);
  const double attention = 6.0 * static_cast<double>(model.layers * sequence * model.heads * model.head_dim);
  return tokens * (6.0 * weights + attention);
}

std::string PipelinePlan::text() const {
  std::string text = fmt::format("layout {}\nschedule {}\n", layers::print_layout(layout), schedule.name);
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    text += fmt::format("rank {}:", rank);
    for (const auto& action : schedule.ranks[rank]) text += fmt::format(" {}", action);
    text += '\n';
  }
  for (const auto& channel : channels())
    text += fmt::format("channel {} {} {} {} x {}\n", channel.id, channel.from_rank, channel.to_rank, channel.depth, channel.bytes);
  return text;
}

}  // namespace millrace::actors
