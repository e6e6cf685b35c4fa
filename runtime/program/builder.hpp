#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runtime/program/program.hpp"

namespace millrace::runtime {

/// The properties of a parameter that the layer which declares it sets.
struct ParameterForm {
  std::optional<kernels::DType> dtype = {};  // none: the compute dtype, as for operands of products and for tables
  StoredForm stored = {};                    // without a shape: stored in the shape that the program uses
  int use = 0;                               // 1: the output head's use of a tied table
  double active = 1;                         // the share of the tokens that it is multiplied with; K / E for experts
  ExpertSlice experts = {};                  // the experts whose weights it has; `stored` is that of the whole tensor
  bool chooses_experts = false;  // a bias [E] by which the scope's router chooses: loads move it (runtime/engine/load_balance.hpp)
  kernels::HeadOutputs heads =
      {};               // of a matrix from which queries or keys are computed, if QK-clip may scale it: the outputs of each head
  bool trained = true;  // false: no gradient may flow to it, and optimizers leave it as it is
};

/// For parameters that are used in fp32 whatever the compute dtype is: those that multiply or are added elementwise (norm scales,
/// biases).
inline const ParameterForm in_f32{.dtype = kernels::DType::f32};

/// Builds the forward program of one stage; layers append their operations to it. Throws Error(internal), naming the operation and
/// both operands, if their shapes do not fit.
class ProgramBuilder {
 public:
  struct Options {
    kernels::DType compute = kernels::DType::f32;  // residual stream, matmul operands; f32 or bf16
    std::int64_t rows = 1;                         // of a microbatch
    std::int64_t sequence = 1;
    bool one_segment = false;     // every row is one segment: attention need not look at segments
    ExpertGroup experts = {};     // whose member the program is for
    bool observe_scores = false;  // attentions that QK-clip may scale observe the largest score of every head
  };
  explicit ProgramBuilder(Options options);

  [[nodiscard]] const Options& options() const noexcept { return options_; }
  [[nodiscard]] std::int64_t tokens_count() const noexcept { return options_.rows * options_.sequence; }  // T

  [[nodiscard]] kernels::Dimension tokens_dimension() const noexcept { return tokens_count(); }

  // -- inputs -----------------------------------------------------------------------------------------------------------------------------
  /// i32 [T]: a field of batch_fields (runtime/batch.hpp), "tokens" for one; the same id each time.
  [[nodiscard]] ValueId batch(std::string_view field);
  /// The port `name` of the boundary to the previous stage: an activation (f32, bf16) or integers (i32), usually [T, width]. The same id
  /// each time; the first calls give the order of the ports.
  [[nodiscard]] ValueId boundary_in(std::string_view name, const ValueType& type);
  /// The port "hidden", [T, width] in the compute dtype.
  [[nodiscard]] ValueId boundary_in(std::int64_t width);
  /// A weight under the checkpoint's name. `form` gives its dtype and its stored form in files.
  [[nodiscard]] ValueId parameter(std::string name, kernels::Shape shape, const ParameterForm& form = {});
  [[nodiscard]] ValueId constant(std::string name, std::vector<float> data);

  // -- operations -------------------------------------------------------------------------------------------------------------------------
  /// Operations appended from here on belong to decoder layer `layer` (-1: to none) and their names start with `scope`.
  void enter(int layer, std::string scope);
  [[nodiscard]] const std::string& scope() const noexcept { return scope_; }
  [[nodiscard]] int layer() const noexcept { return layer_; }
  /// Operations appended from here on are of this round of an exchange (Operation::round), and their results are kept for I or not.
  void enter_round(int round, bool kept) noexcept { round_ = round, kept_ = kept; }
  void leave_rounds() noexcept { enter_round(-1, true); }
  /// Appends one operation; returns its results. `name` is put after the scope.
  std::vector<ValueId> append(const OperationRule& rule, std::vector<ValueId> inputs, Attributes attributes, std::string_view name);
  /// Adds a label to a value and to the further results that its operation keeps for the gradients (attention's log-sum-exp), so
  /// that a policy keeps them together. A value may have several labels.
  void label(ValueId value, std::string_view label);
  /// `table`, i32 [S · rows.experts + 1], separates rows in the order of experts. That of sort_by_expert is known to.
  void set_expert_rows(ValueId table, const ExpertRows& rows);
  [[nodiscard]] const ValueType& type(ValueId value) const;

  // -- exchanges, for operations.hpp ------------------------------------------------------------------------------------------------------
  /// An axis of as many entries as the last one of `table` i32 [n] says, and of `capacity` at most; costs are counted with `mean`. An
  /// executor reads the table just before the operations that have such an operand.
  [[nodiscard]] kernels::Dimension bounded_by(ValueId table, std::int64_t capacity, std::int64_t mean);
  /// Adds an exchange of the current layer; `name` is put after the scope.
  [[nodiscard]] ExchangeId add_exchange(ExchangeSpec exchange, std::string_view name);
  [[nodiscard]] ExchangeSpec& exchange(ExchangeId id) { return program_.exchanges.at(static_cast<std::size_t>(id.index)); }

  // -- the end ----------------------------------------------------------------------------------------------------------------------------
  /// `value` is the next port of the boundary to the next stage. It may be one of the stage's inputs, or a value of another port: it then
  /// leaves as a copy.
  void set_boundary_out(std::string_view name, ValueId value);
  /// The port "hidden".
  void set_boundary_out(ValueId value) { set_boundary_out(hidden_port, value); }
  /// The model may be cut where this value is handed on: no operation is fused with one that reads it, in this stage or in two.
  void hand_on(ValueId value);
  /// `value` (f64 [n]) is a term of the loss: its first entry is the term's sum over the microbatch. Any stage may have any number of them;
  /// several may have one name. The operation that computes it reads GradientBuilder::loss_scale() in its gradient rules.
  void loss_term(LossTerm term, ValueId value);
  /// `value` (i32 or f64 [n]) is shown by a step's record under `name` (runtime/program/observation.hpp), added over microbatches. No
  /// operation may read it, so that nothing depends on it: an operand of others is observed as a copy.
  void observe(std::string_view name, ValueId value);
  /// Ends the program in logits: it then has no loss terms and no observations, whatever layers declare.
  void set_logits(ValueId value);
  /// Returns the program; the builder is empty afterwards.
  [[nodiscard]] ForwardProgram finish();

 private:
  ValueId add_value(Value value);
  ValueId add_named(std::string key, Value value);
  [[nodiscard]] Value& checked(ValueId value, std::string_view component);
  Options options_;
  ForwardProgram program_;
  std::unordered_map<std::string, ValueId> named_;
  int layer_ = -1;
  int round_ = -1;
  bool kept_ = true;
  std::string scope_;
};

}  // namespace millrace::runtime
