#include "runtime/program/memory_plan.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

#include "kernels/base/buffer.hpp"
#include "kernels/base/check.hpp"
#include "kernels/base/device_type.hpp"
#include "kernels/transfer.hpp"
#include "runtime/batch.hpp"

namespace millrace::runtime {
namespace {

constexpr const char* memory_plan_component = "runtime.memory_plan";
constexpr std::size_t never = std::numeric_limits<std::size_t>::max();

std::size_t index(ValueId id) { return static_cast<std::size_t>(id.index); }
std::size_t index(Region region) { return static_cast<std::size_t>(region); }
std::size_t index(ProgramKind kind) { return static_cast<std::size_t>(kind); }

/// The liveness of a value: where it is written and read, over the programs of one mode.
struct Life {
  std::array<bool, program_kind_count> written{}, read{};
  std::size_t first = never, last = 0;  // positions in the program that writes it
  [[nodiscard]] bool touched() const {
    const auto set = [](bool flag) { return flag; };
    return std::any_of(written.begin(), written.end(), set) || std::any_of(read.begin(), read.end(), set);
  }
};

/// Calls visit(table) for the counts that bound an operand of the operation: it is run with what these tables say.
template <class Visit>
void for_counts(const ProgramSet& programs, const Operation& operation, Visit&& visit) {
  for (const auto* ids : {&operation.inputs, &operation.outputs})
    for (const auto id : *ids) {
      const auto& shape = programs.value(id).type.shape;
      for (std::size_t axis = 0; axis < shape.rank(); ++axis)
        if (const auto& dimension = shape.dimension(axis); dimension.bounded())
          visit(programs.counts.at(static_cast<std::size_t>(dimension.count)).table);
    }
}

std::vector<Life> lives_of(const ProgramSet& programs, BackwardMode mode) {
  std::vector<Life> lives(programs.values.size());
  for (const auto kind : all_program_kinds) {
    if (!runs(mode, kind)) continue;
    const auto& program = programs.program(kind);
    for (std::size_t i = 0; i < program.size(); ++i) {
      const auto read = [&](ValueId id) {
        auto& life = lives[index(id)];
        life.read[index(kind)] = true;
        if (life.written[index(kind)]) life.last = std::max(life.last, i);
      };
      for (const auto output : program[i].outputs) {
        auto& life = lives[index(output)];
        life.written[index(kind)] = true;
        life.first = std::min(life.first, i);
        life.last = std::max(life.last, i);
      }
      for (const auto input : program[i].inputs) read(input);
      for_counts(programs, program[i], read);
    }
    // The buffer of a value that begins as a copy must exist before the operation that completes the value.
    for (std::size_t i = 0; i < program.size(); ++i)
      for (const auto input : program[i].inputs)
        if (auto& life = lives[index(input)]; life.written[index(kind)]) life.first = std::min(life.first, i);
    // And that of rows which are received, before they are awaited.
    for (std::size_t i = 0; i < program.size(); ++i)
      if (const ExchangeId posted = posted_by(program[i]); posted.valid()) {
        auto& life = lives[index(programs.exchange(posted).receive)];
        life.first = std::min(life.first, i);
      }
  }
  return lives;
}

/// The region of a value that an operation writes.
Region region_of(const ProgramSet& programs, ValueId id, const Life& life) {
  if (programs.is_result(id)) return Region::result;
  if (id == programs.logits || std::ranges::find(programs.outputs, id, &Port::value) != programs.outputs.end()) return Region::boundary_out;
  if (std::ranges::find(programs.inputs, id, &Port::gradient) != programs.inputs.end()) return Region::gradient_out;
  if (programs.value(id).offloaded) return Region::offload;
  if (life.written[index(ProgramKind::forward)]) {
    if (life.read[index(ProgramKind::weight_gradient)]) return Region::stash_weight;
    if (life.read[index(ProgramKind::input_gradient)] || life.read[index(ProgramKind::backward)]) return Region::stash_input;
  }
  if (life.written[index(ProgramKind::input_gradient)] && life.read[index(ProgramKind::weight_gradient)]) return Region::handoff;
  return Region::workspace;
}

struct Block {
  std::size_t value, bytes, first, last;
  std::size_t offset = 0;
};

/// Best fit: the offset of the smallest gap between the placed blocks that `block` fits into, else the lowest offset above them.
std::size_t best_gap(const std::vector<const Block*>& neighbours, std::size_t bytes) {
  std::size_t end = 0, best = never, best_size = never;
  for (const auto* neighbour : neighbours) {
    if (neighbour->offset > end && neighbour->offset - end >= bytes && neighbour->offset - end < best_size) {
      best = end;
      best_size = neighbour->offset - end;
    }
    end = std::max(end, neighbour->offset + neighbour->bytes);
  }
  return best == never ? end : best;
}

/// Assigns offsets to blocks, which may share memory if their lifetimes do not overlap: largest first, each by best fit. Returns
/// the bytes needed.
std::size_t pack(std::vector<Block>& blocks) {
  std::stable_sort(blocks.begin(), blocks.end(), [](const Block& a, const Block& b) { return a.bytes > b.bytes; });
  std::size_t total = 0;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    auto& block = blocks[i];
    std::vector<const Block*> neighbours;
    for (std::size_t j = 0; j < i; ++j)
      if (blocks[j].first <= block.last && block.first <= blocks[j].last) neighbours.push_back(&blocks[j]);
    std::sort(neighbours.begin(), neighbours.end(), [](const Block* a, const Block* b) { return a->offset < b->offset; });
    block.offset = best_gap(neighbours, block.bytes);
    total = std::max(total, block.offset + block.bytes);
  }
  return total;
}

class Planner {
 public:
  Planner(const ProgramSet& programs, BackwardMode mode, const ParameterPlaces& places, const kernels::Processor& processor)
      : programs_(programs), places_(places), processor_(processor), lives_(lives_of(programs, mode)) {
    plan_.mode = mode;
    plan_.placements.resize(programs.values.size());
  }

  MemoryPlan plan() {
    refuse_exchanges_on_devices();
    for (const auto kind : all_program_kinds)
      if (runs(plan_.mode, kind))
        for (const auto& operation : programs_.program(kind))
          require_kernels(operation.rule->kernel_rows(), processor_.device, memory_plan_component, operation.name);
    place_ports();
    for (std::size_t i = 0; i < programs_.values.size(); ++i) {
      const ValueId id{static_cast<std::int32_t>(i)};
      // A result has its place in every mode, also where another one computes it: training and evaluation share the slots of results.
      if (programs_.is_result(id))
        append(Region::result, programs_.value(id), plan_.placements[i]);
      else if (lives_[i].touched())
        place(id);
    }
    // A stage that reads no batch field (an empty one) still receives the microbatch: the region is the same for all stages.
    if (!programs_.inputs.empty()) plan_.region_bytes[index(Region::batch)] = batch_offset("end", programs_.tokens);
    for (const auto kind : all_program_kinds)
      if (runs(plan_.mode, kind)) place_workspace(kind);
    return std::move(plan_);
  }

 private:
  /// The tables of exchanges and the counts of rows are read by the host.
  void refuse_exchanges_on_devices() const {
    const kernels::DeviceFacts& facts = kernels::device_type(processor_.device).facts();
    if (programs_.exchanges.empty() && programs_.counts.empty()) return;
    MILLRACE_CHECK(facts.host_readable, ExitCode::config, memory_plan_component,
                   "device {} cannot run a stage whose ranks exchange rows of experts ({}), expected device cpu", facts.name,
                   programs_.exchanges.empty() ? programs_.value(programs_.counts.front().table).name : programs_.exchanges.front().name);
  }

  /// Ports lie in the order of the boundary, whatever the programs do with them: the neighbour's programs find them there.
  void place_ports() {
    const auto place_each = [&](Region region, const std::vector<Port>& ports, ValueId Port::*member, const SlotLayout& slot) {
      plan_.region_bytes[index(region)] = kernels::align_up(slot.bytes);
      for (std::size_t i = 0; i < ports.size(); ++i)
        if (const ValueId id = ports[i].*member; id.valid()) plan_.placements[index(id)] = {region, slot.offsets[i]};
    };
    const auto in = programs_.types(programs_.inputs), out = programs_.types(programs_.outputs);
    place_each(Region::boundary_in, programs_.inputs, &Port::value, activation_slot(in));
    place_each(Region::boundary_out, programs_.outputs, &Port::value, activation_slot(out));
    if (plan_.mode == BackwardMode::forward_only) return;
    place_each(Region::gradient_in, programs_.outputs, &Port::gradient, gradient_slot(out));
    place_each(Region::gradient_out, programs_.inputs, &Port::gradient, gradient_slot(in));
  }

  void place(ValueId id) {
    const auto& value = programs_.value(id);
    auto& placement = plan_.placements[index(id)];
    switch (value.role) {
      case Role::parameter:
        placement = places_.parameter(value);
        return;
      case Role::accumulator:
        placement = places_.accumulator(value);
        return;
      case Role::batch:
        return place_batch(value, placement);
      case Role::boundary_in:
      case Role::gradient_in:
        return;  // a port
      case Role::scalar:
        return append(Region::scalar, value, placement);
      case Role::constant:
        return append(Region::constant, value, placement);
      case Role::intermediate:
        break;
    }
    const auto region = region_of(programs_, id, lives_[index(id)]);
    MILLRACE_CHECK(writers(id) == 1, ExitCode::internal, memory_plan_component, "'{}' is written by {} programs, expected one", value.name,
                   writers(id));
    const bool port = region == Region::gradient_out || (region == Region::boundary_out && id != programs_.logits);
    if (region != Region::workspace && !port) append(region, value, placement);
  }

  int writers(ValueId id) const {
    const auto& written = lives_[index(id)].written;
    return static_cast<int>(std::count(written.begin(), written.end(), true));
  }

  /// All values of a slot are alive together when the program that fills it ends, so they are placed one after another.
  void append(Region region, const Value& value, Place& placement) {
    auto& bytes = plan_.region_bytes[index(region)];
    placement = {region, bytes};
    bytes += kernels::align_up(bytes_of(value.type));
  }

  void place_batch(const Value& value, Place& placement) {
    const auto tokens = value.type.shape[0];
    placement = {Region::batch, batch_offset(value.name, tokens)};
    plan_.region_bytes[index(Region::batch)] = batch_offset("end", tokens);
  }

  void place_workspace(ProgramKind kind) {
    std::vector<Block> blocks;
    for (std::size_t i = 0; i < lives_.size(); ++i) {
      const ValueId id{static_cast<std::int32_t>(i)};
      if (programs_.value(id).role != Role::intermediate || !lives_[i].written[index(kind)]) continue;
      if (region_of(programs_, id, lives_[i]) != Region::workspace) continue;
      blocks.push_back({i, kernels::align_up(bytes_of(programs_.value(id).type)), lives_[i].first, lives_[i].last});
    }
    const auto values = pack(blocks);
    for (const auto& block : blocks) plan_.placements[block.value] = {Region::workspace, block.offset};
    const auto scratch = kernels::align_up(scratch_of(kind));
    plan_.scratch_offset[index(kind)] = values;
    plan_.scratch_bytes[index(kind)] = scratch;
    plan_.workspace_bytes[index(kind)] = values + scratch;
    auto& region = plan_.region_bytes[index(Region::workspace)];
    region = std::max(region, values + scratch);
  }

  std::size_t scratch_of(ProgramKind kind) const {
    std::size_t most = 0;
    for (const auto& operation : programs_.program(kind)) {
      std::vector<ValueType> inputs, outputs;
      for (const auto id : operation.inputs) inputs.push_back(programs_.value(id).type);
      for (const auto id : operation.outputs) outputs.push_back(programs_.value(id).type);
      most = std::max(most, operation.rule->scratch_bytes(inputs, outputs, operation.attributes, processor_));
    }
    return most;
  }

  const ProgramSet& programs_;
  const ParameterPlaces& places_;
  kernels::Processor processor_;
  std::vector<Life> lives_;
  MemoryPlan plan_;
};

}  // namespace

std::string_view to_string(Region region) {
  constexpr std::array<std::string_view, region_count> names = {
      "master",       "copy",    "accumulator", "batch",  "boundary_in", "boundary_out", "gradient_in", "gradient_out",      "stash_input",
      "stash_weight", "handoff", "workspace",   "scalar", "constant",    "offload",      "result",      "expert_accumulator"};
  return names.at(static_cast<std::size_t>(region));
}

bool runs(BackwardMode mode, ProgramKind kind) {
  switch (kind) {
    case ProgramKind::forward:
      return mode != BackwardMode::forward_only;
    case ProgramKind::backward:
      return mode == BackwardMode::fused;
    case ProgramKind::evaluate:
      return mode == BackwardMode::forward_only;
    default:
      return mode == BackwardMode::split;
  }
}

std::size_t bytes_of(const ValueType& type) { return static_cast<std::size_t>(type.shape.elements()) * kernels::size_of(type.dtype); }

std::size_t batch_offset(std::string_view field, std::int64_t tokens) {
  const auto each = kernels::align_up(static_cast<std::size_t>(tokens) * kernels::size_of(kernels::DType::i32));
  const std::size_t place = batch_field_index(field);
  MILLRACE_CHECK(place < batch_fields.size() || field == "end", ExitCode::internal, memory_plan_component, "a batch has no field '{}'",
                 field);
  return place * each;
}

void write_constants(const ProgramSet& programs, const MemoryPlan& plan, std::byte* base, kernels::Device device) {
  for (std::size_t i = 0; i < programs.values.size(); ++i) {
    const auto& value = programs.values[i];
    if (value.role == Role::constant && plan.placements[i].region == Region::constant)
      kernels::write_now(device, base + plan.placements[i].offset, std::as_bytes(std::span(value.data)));
  }
}

MemoryPlan plan_memory(const ProgramSet& programs, BackwardMode mode, const ParameterPlaces& places, const kernels::Processor& processor) {
  return Planner(programs, mode, places, processor).plan();
}

}  // namespace millrace::runtime
