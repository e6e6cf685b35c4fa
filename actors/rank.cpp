#include "actors/rank.hpp"

#include <algorithm>
#include <caf/send.hpp>
#include <utility>

#include "actors/messages.hpp"
#include "kernels/base/check.hpp"

namespace millrace::actors {
namespace {

constexpr int kBatchesAhead = 2;  // of the next step, loaded while this one computes

runtime::StageParameter stage_parameter(const layers::ParameterSpec& spec, runtime::StageId stage) {
  return {spec.name, spec.shape, stage, spec.use, spec.order, spec.shape.rank() >= 2};
}

}  // namespace

/// Links call from the transport thread or from another rank's actor; the rank hears of it as messages.
class Rank::Events : public cluster::LinkEvents {
 public:
  explicit Events(Rank& rank) : rank_(rank) {}
  void on_arrival(const cluster::Arrival& arrival) override { caf::anon_send(rank_.inbox, TokenArrived{arrival}); }
  void on_writable(int channel, std::int64_t sequence) override { caf::anon_send(rank_.inbox, SlotWritable{channel, sequence}); }

 private:
  Rank& rank_;
};

int batches_in_flight(const runtime::RankPlan& plan) {
  const auto count = static_cast<std::size_t>(plan.microbatches);
  std::vector<int> first(count, -1), last(count, -1);
  for (std::size_t index = 0; index < plan.actions.size(); ++index) {
    const auto microbatch = plan.actions[index].action.microbatch.index();
    if (first[microbatch] < 0) first[microbatch] = static_cast<int>(index);
    last[microbatch] = static_cast<int>(index);
  }
  // Slots go back in order, so a microbatch holds its slot until all before it are done.
  int most = 0, held = 0;
  std::size_t released = 0, entered = 0;
  for (int index = 0; index < static_cast<int>(plan.actions.size()); ++index) {
    while (entered < count && first[entered] <= index) {
      ++entered;
      ++held;
    }
    most = std::max(most, held);
    while (released < entered && last[released] <= index) {
      ++released;
      --held;
    }
  }
  return most;
}

Rank::Rank(const PipelinePlan& plan, const RankOptions& options) : plan_(plan), options_(options) {
  const auto& slots = plan.ledger.stages;
  training_plan_ = runtime::make_rank_plan(plan.schedule, id(), slots);
  const auto& placement = plan.schedule.placement;
  logits_plan_ = runtime::make_rank_plan(runtime::forward_only(placement, 1), id(), slots);
  training_batches_ = batches_in_flight(training_plan_) + kBatchesAhead;
  evaluation_batches_ = 1;
  if (options.evaluation_microbatches > 0) {
    evaluation_plan_ = runtime::make_rank_plan(runtime::forward_only(placement, static_cast<int>(options.evaluation_microbatches)), id(), slots);
    evaluation_batches_ = batches_in_flight(evaluation_plan_) + kBatchesAhead;
  }

  std::vector<runtime::RankStage> stages;
  for (const auto stage : placement.stages_of(id())) {
    const bool last = stage.value == plan.stages() - 1;
    runtime::RankStage rank_stage;
    rank_stage.stage = stage;
    rank_stage.training = plan.programs(stage);
    if (options.logits && last) rank_stage.logits = plan.programs(stage, layers::Output::logits);
    for (const auto& spec : layers::parameters(plan.model, plan.layout[stage.index()])) rank_stage.parameters.push_back(stage_parameter(spec, stage));
    const auto& ledger = slots.at(stage.index());
    rank_stage.slots = {ledger.stash_input, ledger.stash_weight, ledger.handoff, 0, 0, 0, 0, 0};
    if (last) rank_stage.slots.results = static_cast<int>(std::max<std::int64_t>(plan.schedule.microbatches, options.evaluation_microbatches));
    stages.push_back(std::move(rank_stage));
  }
  runtime::RankOptions compute;
  compute.compute = plan.compute;
  compute.mode = plan.split_backward ? runtime::BackwardMode::split : runtime::BackwardMode::fused;
  compute.accumulators = plan.accumulators;
  compute.batches = training_batches_ + evaluation_batches_;
  compute.staging = options.staging;
  compute.threads = options.threads;
  compute_ = std::make_unique<runtime::RankCompute>(std::move(stages), compute);

  plan_rings();
  events_ = std::make_unique<Events>(*this);
  worker_ = std::make_unique<ComputeWorker>(
      64,
      [this] {
        team_ = std::make_unique<kernels::ThreadTeam>(options_.threads, options_.cores);
        stream_ = std::make_unique<kernels::Stream>(*team_, options_.implementation);
      },
      [this] {
        stream_.reset();
        team_.reset();
      });
}

Rank::~Rank() = default;

/// One ring for each channel that ends here, and for each that begins here: when the other end turns out to be in this process, the receiver's is used.
void Rank::plan_rings() {
  for (const auto& spec : plan_.channels()) {
    if (spec.from_rank != id().value && spec.to_rank != id().value) continue;
    const std::size_t bytes = kernels::align_up(cluster::ring_bytes(spec));
    rings_.push_back({spec.id, ring_bytes_, bytes});
    ring_bytes_ += bytes;
  }
  if (ring_bytes_ > 0) ring_memory_ = kernels::Buffer(ring_bytes_);
}

std::span<std::byte> Rank::ring(int channel) const {
  const auto found = std::find_if(rings_.begin(), rings_.end(), [&](const Ring& candidate) { return candidate.channel == channel; });
  MILLRACE_CHECK(found != rings_.end(), ExitCode::internal, "actors.rank", "rank {} has no ring of channel {}", id(), channel);
  return ring_memory_.bytes().subspan(found->offset, found->bytes);
}

void Rank::add_ends(cluster::ChannelEnds& ends, bool same_process) {
  if (ends.spec.to_rank == id().value) {
    ends.receive_ring = ring(ends.spec.id);
    ends.receiver = events_.get();
  }
  if (ends.spec.from_rank == id().value) {
    ends.sender = events_.get();
    if (!same_process) ends.send_ring = ring(ends.spec.id);
  }
}

void Rank::set_progress(const cluster::Progress& progress) {
  const std::lock_guard lock(progress_mutex_);
  progress_ = progress;
}

cluster::Progress Rank::progress() const {
  const std::lock_guard lock(progress_mutex_);
  return progress_;
}

std::string Rank::print_memory() const {
  std::string text = compute_->memory().plan().print();
  for (const auto& ring : rings_) text += fmt::format("  ring of channel {}: {} bytes\n", ring.channel, ring.bytes);
  text += fmt::format("  rank {}: {} bytes in all\n", id(), planned_bytes());
  return text;
}

}  // namespace millrace::actors
