#include "runtime/engine/shard_layout.hpp"

#include <algorithm>
#include <utility>

#include "kernels/base/buffer.hpp"
#include "kernels/base/check.hpp"
#include "kernels/packing.hpp"
#include "runtime/io/hash.hpp"

namespace millrace::runtime {
namespace {

constexpr const char* shard_layout_component = "runtime.shard_layout";

void add_use(StoredParameter& tensor, const StageParameter& parameter) {
  MILLRACE_CHECK(tensor.shape == parameter.shape, ExitCode::internal, shard_layout_component,
                 "{} is {} in stage {} and {} elsewhere, expected one shape", parameter.name, kernels::to_string(parameter.shape),
                 parameter.stage, kernels::to_string(tensor.shape));
  const auto& [first, all] = parameter.experts;
  MILLRACE_CHECK(all == 0 || (parameter.shape.rank() >= 1 && first >= 0 && first + parameter.shape[0] <= all), ExitCode::internal,
                 shard_layout_component, "{} is {} from expert {} on in stage {}, expected experts of the {} along its first axis",
                 parameter.name, kernels::to_string(parameter.shape), first, parameter.stage, all);
  MILLRACE_CHECK(!tensor.has_use(parameter.use), ExitCode::internal, shard_layout_component, "use {} of {} is declared twice on one rank",
                 parameter.use, parameter.name);
  tensor.plain = tensor.plain || parameter.plain;
  for (std::size_t form = 0; form < tensor.packed.size(); ++form) tensor.packed[form] = tensor.packed[form] || parameter.packed[form];
  tensor.in_f32 = tensor.in_f32 || parameter.in_f32;
  tensor.router = parameter.router;
  tensor.trained = parameter.trained;
  tensor.matrices = parameter.matrices;
  tensor.scores = parameter.scores;
  tensor.experts = parameter.experts;
  tensor.tied = tensor.tied || parameter.tied;
  tensor.group = parameter.group;
  tensor.owned = tensor.whole();
  tensor.uses.push_back({.stage = parameter.stage,
                         .use = parameter.use,
                         .copy = parameter.copy,
                         .accumulator = 0,
                         .kept = 0,
                         .plain = parameter.plain,
                         .packed = parameter.packed});
}

std::size_t take(std::size_t& end, std::size_t bytes) {
  const std::size_t begin = end;
  end += kernels::align_up(bytes);
  return begin;
}

/// The tensors of the rank in model order, each with all its uses.
std::vector<StoredParameter> tensors_of(const std::vector<StageParameter>& parameters) {
  std::vector<StoredParameter> tensors;
  for (const StageParameter& parameter : parameters) {
    auto tensor = std::ranges::find(tensors, parameter.name, &StoredParameter::name);
    if (tensor == tensors.end()) {
      tensors.push_back({parameter.name, parameter.shape, parameter.order, parameter.decays, false, 0, 0, false, {}, false, {}, {}});
      tensor = tensors.end() - 1;
    }
    add_use(*tensor, parameter);
  }
  std::ranges::stable_sort(tensors, {}, &StoredParameter::order);
  for (StoredParameter& tensor : tensors) std::ranges::sort(tensor.uses, {}, &StoredParameter::Use::use);
  return tensors;
}

/// Gives every use of the tensor by the shard's stage its gradient sum.
void add_accumulators(ShardLayout& shard, StoredParameter& tensor) {
  for (StoredParameter::Use& use : tensor.uses) {
    if (use.stage != shard.stage) continue;
    use.accumulator = take(tensor.experts.present() ? shard.expert_accumulator_bytes : shard.accumulator_bytes, tensor.bytes());
    use.kept = use.accumulator;
  }
}

/// Gives the tensor's copies their places from `end` on, but for a bf16 copy that is only used for packing: returns the bytes of that.
std::size_t place_copies(StoredParameter& tensor, std::size_t& end) {
  const std::size_t copy = tensor.copied ? tensor.elements() * sizeof(kernels::BFloat16) : 0;
  if (tensor.plain) tensor.copy = take(end, copy);
  for (std::size_t form = 0; form < tensor.packed.size(); ++form)
    if (tensor.packed[form]) tensor.packed_copy[form] = take(end, kernels::packed_bytes(tensor.shape, form == 1, tensor.read_type()));
  return tensor.plain ? 0 : kernels::align_up(copy);
}

/// Gives the tensors of the stage their optimizer states, one state of all tensors after the other.
void place_states(ShardLayout& shard, std::vector<StoredParameter>& tensors, const Optimizer& optimizer) {
  for (std::size_t state = 0; state < optimizer.states().size(); ++state) {
    for (StoredParameter& tensor : tensors) {
      if (tensor.home() != shard.stage) continue;
      const bool has_it = tensor.trained && optimizer.keeps(state, tensor.matrices);
      tensor.states.push_back(
          has_it ? take(shard.state_bytes, static_cast<std::size_t>(tensor.owned.count) * kernels::size_of(optimizer.states()[state].dtype))
                 : no_state);
    }
  }
}

/// Gives what the rank owns of the stage's parameters its place in a snapshot. What lies together is copied together.
void place_snapshot(ShardLayout& shard, std::vector<StoredParameter>& tensors) {
  for (const bool experts : {false, true}) {
    for (StoredParameter& tensor : tensors) {
      if (tensor.experts.present() != experts || tensor.home() != shard.stage || tensor.owned.empty()) continue;
      const std::size_t from = tensor.offset + static_cast<std::size_t>(tensor.owned.first - tensor.held().first) * sizeof(float);
      const std::size_t bytes = static_cast<std::size_t>(tensor.owned.count) * sizeof(float);
      tensor.staged = take(shard.staged_bytes, bytes);
      const bool joins = !shard.staged_runs.empty() && from - shard.staged_runs.back().from == tensor.staged - shard.staged_runs.back().to;
      if (!joins) shard.staged_runs.push_back({from, tensor.staged, 0});
      ShardLayout::StagedRun& run = shard.staged_runs.back();
      run.bytes = tensor.staged + bytes - run.to;
    }
  }
}

/// Lists what the rank keeps of the sums, after it is known who owns what.
void list_sums(ShardLayout& shard, const std::vector<StoredParameter>& tensors) {
  for (const bool experts : {false, true})
    for (const StoredParameter& tensor : tensors)
      for (const StoredParameter::Use& use : tensor.uses)
        if (tensor.experts.present() == experts && use.stage == shard.stage)
          shard.accumulators.push_back({tensor.shape, tensor.kept(), use.kept, experts});
}

/// A gradient sum of the shard's stage, and the weight whose it is.
struct BucketEntry {
  StoredParameter* tensor = nullptr;
  StoredParameter::Use* use = nullptr;
  bool first_use = false;

  [[nodiscard]] std::size_t begin() const noexcept { return use->accumulator; }
};

/// Gives what the rank owns of a bucket its place among the sums that it keeps.
void place_kept(ShardLayout& shard, std::span<const BucketEntry> entries, ShardLayout::Bucket& bucket, std::size_t own) {
  const std::size_t begin = bucket.cuts[own];
  bucket.kept = take(shard.kept_bytes, bucket.cuts[own + 1] - begin);
  for (const BucketEntry& entry : entries) {
    entry.tensor->sums_divided = true;
    const ElementRange& owned = entry.tensor->owned;
    entry.use->kept =
        owned.empty() ? bucket.kept : bucket.kept + entry.begin() + static_cast<std::size_t>(owned.first) * sizeof(float) - begin;
  }
}

/// The bucket of consecutive gradient sums, which replicas with these loads divide.
ShardLayout::Bucket make_bucket(ShardLayout& shard, std::span<const BucketEntry> entries, std::span<std::int64_t> loads, bool experts,
                                const ShardDivision& division, const Optimizer* optimizer) {
  const int own = (experts ? division.expert_replicas : division.replicas).own;
  std::vector<DividedTensor> tensors;
  for (const auto& [tensor, use, first_use] : entries) {
    const bool whole = division.whole_scores && !tensor->scores.scope.empty();
    tensors.push_back({tensor->shape.elements(),
                       whole ? tensor->shape.elements() : division_unit(tensor->shape, experts, tensor->matrices, optimizer),
                       tensor->trained || division.divides_masters(experts)});  // its masters are a load too
  }
  const auto owned = divide(tensors, loads);
  ShardLayout::Bucket bucket;
  bucket.experts = experts;
  const std::size_t end = entries.back().begin() + kernels::align_up(entries.back().tensor->bytes());
  bucket.cuts.assign(loads.size() + 1, end);
  for (std::size_t member = loads.size(); member-- > 0;) {
    bucket.cuts[member] = bucket.cuts[member + 1];
    for (std::size_t i = entries.size(); i-- > 0;)
      if (const ElementRange& range = owned[i][member]; !range.empty())
        bucket.cuts[member] = entries[i].begin() + static_cast<std::size_t>(range.first) * sizeof(float);
  }
  for (std::size_t i = 0; i < entries.size(); ++i) {
    entries[i].tensor->divided = true;
    entries[i].tensor->masters_divided = division.divides_masters(experts);
    entries[i].tensor->owned = owned[i][static_cast<std::size_t>(own)];
  }
  bucket.kept = bucket.cuts[static_cast<std::size_t>(own)];
  if (division.sums && !experts) place_kept(shard, entries, bucket, static_cast<std::size_t>(own));
  const StoredParameter& first = *entries.front().tensor;
  if (entries.front().first_use && first.home() == shard.stage && !first.masters_divided) bucket.master = first.offset;
  return bucket;
}

/// Makes the buckets of a stage's gradient sums, if replicas divide them, and says what this rank owns of each weight.
void divide_shard(ShardLayout& shard, std::vector<StoredParameter>& tensors, bool experts, const ShardDivision& division,
                  const Optimizer* optimizer) {
  if (!division.divides(experts)) return;
  const Replicas& replicas = experts ? division.expert_replicas : division.replicas;
  std::vector<std::int64_t> loads(static_cast<std::size_t>(replicas.members), 0);
  std::vector<BucketEntry> entries;
  std::size_t bytes = 0;
  const auto close = [&](std::span<std::int64_t> of_members) {
    if (!entries.empty()) shard.buckets.push_back(make_bucket(shard, entries, of_members, experts, division, optimizer));
    entries.clear();
    bytes = 0;
  };
  for (StoredParameter& tensor : tensors) {
    if (tensor.experts.present() != experts) continue;
    const bool alone = tensor.tied || tensor.uses.size() > 1;
    for (StoredParameter::Use& use : tensor.uses) {
      if (use.stage != shard.stage) continue;
      if (alone) close(loads);
      entries.push_back({&tensor, &use, &use == &tensor.uses.front()});
      bytes += tensor.bytes();
      if (alone) {
        std::vector<std::int64_t> own(loads.size(), 0);  // of the table alone, since other stages that use it have other loads
        close(own);
        for (std::size_t member = 0; member < loads.size(); ++member) loads[member] += own[member];
      } else if (bytes >= division.bucket_bytes)
        close(loads);
    }
  }
  close(loads);
}

/// Where a place among the gradient sums of `entries`, which lie one after another, is among their gathered parameters.
std::size_t gathered_place(std::span<const BucketEntry> entries, std::size_t place) {
  const auto after = std::ranges::upper_bound(entries, place, {}, &BucketEntry::begin);
  const auto& [tensor, use, first_use] = *std::prev(after);
  const std::size_t element = std::min((place - use->accumulator) / sizeof(float), tensor->elements());
  return use->gathered + element * kernels::size_of(tensor->read_type());
}

/// Gives the parameters that the stage gathers, and their packed forms, their places in its slot, from the slot's beginning on.
void place_gathered(ShardLayout& shard, std::vector<StoredParameter>& tensors) {
  std::vector<BucketEntry> entries;
  for (StoredParameter& tensor : tensors)
    if (tensor.masters_divided)
      for (StoredParameter::Use& use : tensor.uses)
        if (use.stage == shard.stage) entries.push_back({&tensor, &use, &use == &tensor.first_use_by(shard.stage)});
  for (ShardLayout::Bucket& bucket : shard.buckets) {
    std::vector<BucketEntry> own;
    for (const BucketEntry& entry : entries)
      if (entry.tensor->experts.present() == bucket.experts && bucket.cuts.front() <= entry.begin() && entry.begin() < bucket.cuts.back())
        own.push_back(entry);
    if (own.empty() || !own.front().first_use) continue;
    for (const auto& [tensor, use, first_use] : own)
      use->gathered = take(shard.slot_bytes, tensor->elements() * kernels::size_of(tensor->read_type()));
    for (const std::size_t cut : bucket.cuts) bucket.gathered.push_back(gathered_place(own, cut));
    for (const auto& [tensor, use, first_use] : own)
      if (const ElementRange& owned = tensor->owned; !owned.empty())
        bucket.own.push_back({tensor->offset, use->gathered + static_cast<std::size_t>(owned.first) * kernels::size_of(tensor->read_type()),
                              owned.count, tensor->read_type()});
  }
  for (const auto& [tensor, use, first_use] : entries)
    for (std::size_t form = 0; form < use->packed.size(); ++form)
      if (first_use && use->packed[form])
        use->packed_gathered[form] = take(shard.slot_bytes, kernels::packed_bytes(tensor->shape, form == 1, tensor->read_type()));
}

/// Moves what the stage gathers to its slot, which begins there in Region::copy.
void move_to_slot(ShardLayout& shard, std::vector<StoredParameter>& tensors, std::size_t begin) {
  for (StoredParameter& tensor : tensors) {
    for (StoredParameter::Use& use : tensor.uses) {
      if (!tensor.masters_divided || use.stage != shard.stage) continue;
      use.gathered += begin;
      for (std::size_t& place : use.packed_gathered) place += begin;
    }
  }
  for (ShardLayout::Bucket& bucket : shard.buckets) {
    for (std::size_t& cut : bucket.gathered) cut += begin;
    for (ShardLayout::Bucket::OwnRun& run : bucket.own) run.gathered += begin;
  }
}

/// Lays out the slots after the copies, which end at `copies`.
void place_slots(RankShards& rank, std::vector<StoredParameter>& tensors, std::size_t copies, int slots) {
  for (std::size_t index = 0; index < rank.stages.size(); ++index) {
    ShardLayout& shard = rank.stages[index];
    place_gathered(shard, tensors);
    if (shard.slot_bytes == 0) continue;
    const std::size_t slot = index % static_cast<std::size_t>(slots);
    shard.slot = static_cast<int>(slot);
    if (rank.slots.size() <= slot) rank.slots.resize(slot + 1);
    rank.slots[slot] = std::max(rank.slots[slot], shard.slot_bytes);
  }
  for (ShardLayout& shard : rank.stages) {
    if (shard.slot < 0) continue;
    std::size_t begin = copies;
    for (int slot = 0; slot < shard.slot; ++slot) begin += rank.slots[static_cast<std::size_t>(slot)];
    move_to_slot(shard, tensors, begin);
  }
}

/// Says how programs read each tensor, and joins the forms in which one stage reads it in several uses.
void note_reads(std::vector<StoredParameter>& tensors, kernels::DType compute) {
  for (StoredParameter& tensor : tensors) {
    tensor.copied = compute == kernels::DType::bf16 && !tensor.in_f32;
    for (const StoredParameter::Use& use : tensor.uses) {
      auto& first = *std::ranges::find(tensor.uses, use.stage, &StoredParameter::Use::stage);
      first.plain = first.plain || use.plain;
      for (std::size_t form = 0; form < first.packed.size(); ++form) first.packed[form] = first.packed[form] || use.packed[form];
    }
  }
}

bool used_by(const StoredParameter& tensor, StageId stage) noexcept {
  return std::ranges::find(tensor.uses, stage, &StoredParameter::Use::stage) != tensor.uses.end();
}

const StoredParameter* find_in(const std::vector<StoredParameter>& tensors, std::string_view name) noexcept {
  const auto tensor = std::ranges::find(tensors, name, &StoredParameter::name);
  return tensor == tensors.end() ? nullptr : &*tensor;
}

}  // namespace

std::int64_t division_unit(const kernels::Shape& shape, bool experts, const kernels::MatrixForm& matrices, const Optimizer* optimizer) {
  if (experts) return shape.elements() / shape[0];
  if (matrices.count > 0 && optimizer != nullptr && optimizer->updates_matrices()) return shape.elements();
  std::size_t smallest = sizeof(float);
  if (optimizer != nullptr)
    for (const OptimizerState& state : optimizer->states()) smallest = std::min(smallest, kernels::size_of(state.dtype));
  return static_cast<std::int64_t>(hash_chunk_bytes / smallest);
}

std::vector<StageParameter> parameters_of(const ProgramSet& programs, StageId stage) {
  std::vector<StageParameter> list;
  for (const Value& value : programs.values) {
    // A parameter that is read packed as well has a second value.
    if (value.role != Role::parameter || value.form != WeightForm::plain) continue;
    StageParameter parameter{value.name, value.type.shape, stage, value.use, static_cast<int>(list.size()), value.type.shape.rank() > 1};
    parameter.in_f32 = value.type.dtype == kernels::DType::f32;
    parameter.router = value.router;
    parameter.trained = value.trained;
    parameter.experts = value.experts;
    list.push_back(std::move(parameter));
  }
  return list;
}

bool StoredParameter::has_use(int use) const noexcept {
  return std::any_of(uses.begin(), uses.end(), [use](const Use& other) { return other.use == use; });
}

const StoredParameter::Use& StoredParameter::first_use_by(StageId stage) const {
  const auto first = std::ranges::find(uses, stage, &Use::stage);
  MILLRACE_CHECK(first != uses.end(), ExitCode::internal, shard_layout_component, "stage {} does not use {}", stage, name);
  return *first;
}

bool StoredParameter::is_owner() const noexcept {
  return std::any_of(uses.begin(), uses.end(), [](const Use& each) { return each.use == 0 && !each.copy; });
}

RankShards lay_out_shards(std::span<const StageId> stages, const std::vector<StageParameter>& parameters, kernels::DType compute,
                          const Optimizer* optimizer, const ShardDivision& division) {
  std::vector<StoredParameter> tensors = tensors_of(parameters);
  note_reads(tensors, compute);
  RankShards rank;
  std::size_t masters = 0, copies = 0;  // the ends of the two regions
  for (const StageId stage : stages) {
    ShardLayout shard;
    shard.stage = stage;
    shard.master.begin = masters;
    shard.copy.begin = copies;
    for (const bool experts : {false, true}) {  // weights of experts lie together, as their gradient sums do
      for (StoredParameter& tensor : tensors) {
        if (tensor.experts.present() != experts) continue;
        add_accumulators(shard, tensor);
        if (tensor.home() != stage || division.divides_masters(experts)) continue;
        tensor.offset = take(masters, tensor.bytes());
        rank.shared_copy = std::max(rank.shared_copy, place_copies(tensor, copies));
      }
      divide_shard(shard, tensors, experts, division, optimizer);
      if (!division.divides_masters(experts)) continue;
      for (StoredParameter& tensor : tensors)
        if (tensor.experts.present() == experts && tensor.home() == stage)
          tensor.offset = take(masters, static_cast<std::size_t>(tensor.owned.count) * sizeof(float));
    }
    shard.divides_sums = division.sums && division.replicas.members > 1;
    if (!shard.divides_sums) shard.kept_bytes = shard.accumulator_bytes;
    if (optimizer != nullptr) place_states(shard, tensors, *optimizer);
    place_snapshot(shard, tensors);
    shard.master.bytes = masters - shard.master.begin;
    shard.copy.bytes = copies - shard.copy.begin;
    rank.stages.push_back(std::move(shard));
  }
  for (StoredParameter& tensor : tensors)
    if (!tensor.plain) tensor.copy = copies;
  if (division.slots > 0) place_slots(rank, tensors, copies + rank.shared_copy, division.slots);
  for (ShardLayout& shard : rank.stages) {
    list_sums(shard, tensors);
    for (const StoredParameter& tensor : tensors) {
      if (tensor.home() == shard.stage)
        shard.tensors.push_back(tensor);
      else if (used_by(tensor, shard.stage))
        shard.borrowed.push_back(tensor);
    }
  }
  return rank;
}

void note_completion(ShardLayout& shard, const ProgramSet& programs) {
  const ParameterPlaces places = shard.places();
  for (const ProgramKind kind : all_program_kinds) {
    const auto& operations = programs.program(kind);
    for (std::size_t index = 0; index < operations.size(); ++index) {
      for (const ValueId output : operations[index].outputs) {
        const Value& value = programs.value(output);
        if (value.role != Role::accumulator) continue;
        const auto [region, offset] = places.accumulator(value);
        for (ShardLayout::Bucket& bucket : shard.buckets)
          if (bucket.experts == (region == Region::expert_accumulator) && bucket.cuts.front() <= offset && offset < bucket.cuts.back())
            bucket.complete[static_cast<std::size_t>(kind)] = index;
      }
    }
  }
}

std::size_t ShardLayout::reported_pieces() const {
  std::size_t pieces = 0;
  for (const StoredParameter& tensor : tensors) {
    const auto [first, end] = tensor.pieces().of(tensor.reported());
    pieces += static_cast<std::size_t>(end - first);
  }
  return pieces;
}

const StoredParameter* ShardLayout::find(std::string_view name) const noexcept { return find_in(tensors, name); }

const StoredParameter& ShardLayout::at(std::string_view name) const {
  const StoredParameter* tensor = find(name);
  MILLRACE_CHECK(tensor != nullptr, ExitCode::internal, shard_layout_component, "no parameter \"{}\" in the shard of stage {}", name,
                 stage);
  return *tensor;
}

ParameterPlaces ShardLayout::places() const {
  const auto tensor_of = [this](const Value& value) -> const StoredParameter& {
    const StoredParameter* other = find_in(borrowed, value.name);
    return other != nullptr ? *other : at(value.name);
  };
  ParameterPlaces places;
  places.parameter = [this, tensor_of](const Value& value) -> Place {
    const StoredParameter& tensor = tensor_of(value);
    if (tensor.masters_divided) {
      const StoredParameter::Use& use = tensor.first_use_by(stage);
      return {Region::copy,
              value.form == WeightForm::plain ? use.gathered : use.packed_gathered[value.form == WeightForm::packed_turned ? 1 : 0]};
    }
    if (value.form != WeightForm::plain) return {Region::copy, tensor.packed_copy[value.form == WeightForm::packed_turned ? 1 : 0]};
    if (value.type.dtype == kernels::DType::bf16) return {Region::copy, tensor.copy};
    return {Region::master, tensor.offset};
  };
  places.accumulator = [this, tensor_of](const Value& value) -> Place {
    const StoredParameter& tensor = tensor_of(value);
    for (const StoredParameter::Use& use : tensor.uses) {
      if (use.use == value.use && use.stage == stage)
        return {tensor.experts.present() ? Region::expert_accumulator : Region::accumulator, use.accumulator};
    }
    fail(ExitCode::internal, shard_layout_component, "stage {} has no accumulator for use {} of {}", stage, value.use, value.name);
  };
  return places;
}

}  // namespace millrace::runtime
