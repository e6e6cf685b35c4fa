#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/program/exchange.hpp"
#include "runtime/program/loss_term.hpp"
#include "runtime/program/observation.hpp"
#include "runtime/program/operation.hpp"
#include "runtime/program/port.hpp"
#include "runtime/program/value.hpp"

namespace millrace::runtime {

/// The programs of one stage. B (backward) runs the operations of I and W, each W operation as soon as its operands exist: the
/// same bits as I then W, with less memory. `evaluate` is the whole forward program; F (forward) of a training step leaves out
/// what I computes along with its gradients: the loss.
enum class ProgramKind : std::uint8_t { forward, input_gradient, weight_gradient, backward, evaluate };
inline constexpr std::size_t program_kind_count = 5;
inline constexpr std::array all_program_kinds = {ProgramKind::forward, ProgramKind::input_gradient, ProgramKind::weight_gradient,
                                                 ProgramKind::backward, ProgramKind::evaluate};
[[nodiscard]] std::string_view to_string(ProgramKind kind);

/// A loss term with the value that computes it.
struct StageLoss {
  LossTerm term;
  ValueId value;  // f64 [n]: the sum over a microbatch, then parts of it that only captures look at ({loss, z-loss within it})
  ValueId scale;  // f32 [1] that its gradient begins with (LossTerm::gradient_scale); invalid if no gradient flows from it
};

/// A count of rows that a program itself computes.
struct RowCount {
  ValueId table;          // i32 [n], whose last entry it is
  std::int64_t mean = 0;  // over the members of a group, by which costs are counted
};

/// The forward operations of one stage as layers wrote them, and the table of its values. Made by ProgramBuilder, immutable
/// afterwards.
struct ForwardProgram {
  std::vector<Value> values;
  std::vector<Operation> operations;
  std::int64_t tokens = 0;         // of a microbatch, at its capacity
  std::vector<Port> inputs;        // what the previous stage hands on; none in the first stage
  std::vector<Port> outputs;       // what the stage hands to the next one; none in the last
  std::vector<ValueId> handed_on;  // values that layers hand on: no operation is fused across them, wherever the model is cut
  ValueId logits;                  // f32 [T, V] if the builder was asked for logits, else invalid
  std::vector<StageLoss> losses;   // in the order in which layers declared them; any stage may have some, none has them with logits
  std::vector<StageObservation> observations;  // in the order in which layers declared them; none with logits
  std::vector<ExchangeSpec> exchanges;         // by ExchangeId
  std::vector<RowCount> counts;                // by index of the count that bounds an axis
  [[nodiscard]] const Value& value(ValueId id) const { return values.at(static_cast<std::size_t>(id.index)); }
};

/// The programs derived from a forward program. Their value table extends that of the forward: ids of the forward keep their
/// meaning, derived values follow.
struct ProgramSet {
  std::vector<Value> values;
  std::array<std::vector<Operation>, program_kind_count> programs;
  std::int64_t tokens = 0;    // of a microbatch, at its capacity
  std::vector<Port> inputs;   // each `gradient` is what this stage hands back
  std::vector<Port> outputs;  // each `gradient` is what the next stage hands back
  std::vector<ValueId> handed_on;
  ValueId logits;
  std::vector<StageLoss> losses;
  std::vector<StageObservation> observations;
  std::vector<ExchangeSpec> exchanges;  // by ExchangeId; those of I and of recomputed operations have ids of their own
  // What bounds axes (kernels::Dimension), by index of the count: the table i32 [n] whose last entry it is. F or the evaluation writes it
  // before any operation with such an operand, and it is kept for I and W.
  std::vector<RowCount> counts;
  [[nodiscard]] const Value& value(ValueId id) const { return values.at(static_cast<std::size_t>(id.index)); }
  [[nodiscard]] const ExchangeSpec& exchange(ExchangeId id) const { return exchanges.at(static_cast<std::size_t>(id.index)); }
  [[nodiscard]] const std::vector<Operation>& program(ProgramKind kind) const { return programs[static_cast<std::size_t>(kind)]; }
  [[nodiscard]] Cost cost(ProgramKind kind) const;
  /// The parts of a program between exchanges: one if it awaits none.
  [[nodiscard]] std::vector<Segment> segments(ProgramKind kind) const { return segments_of(program(kind)); }
  /// The types of some of its ports, in their order.
  [[nodiscard]] std::vector<ValueType> types(const std::vector<Port>& ports) const;
  /// The loss term that `id` is the value of; nullptr if it is none.
  [[nodiscard]] const StageLoss* loss_of(ValueId id) const;
  /// Whether the step's record shows `id`: a loss term or an observation. Such a value has a place of its own for every microbatch.
  [[nodiscard]] bool is_result(ValueId id) const;
};

/// A value's type with as many rows as are expected where a count bounds them (RowCount::mean).
[[nodiscard]] ValueType mean_type(const ProgramSet& programs, ValueId id);

/// FLOPs and bytes of one operation of a set.
[[nodiscard]] Cost cost(const ProgramSet& programs, const Operation& operation);

}  // namespace millrace::runtime
