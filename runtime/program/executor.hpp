#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/base/execution_context.hpp"
#include "runtime/program/memory_plan.hpp"
#include "runtime/program/program.hpp"

namespace millrace::runtime {

/// Bases of the regions for one execution: which microbatch's stash, which ring slots.
struct Bindings {
  std::array<std::byte*, region_count> base{};
  [[nodiscard]] std::byte*& operator[](Region region) { return base[static_cast<std::size_t>(region)]; }
  [[nodiscard]] std::byte* operator[](Region region) const { return base[static_cast<std::size_t>(region)]; }
};

/// Called around every operation with its operands in memory. Statistics, NaN search, break points and recordings hang here.
class OperationHook {
 public:
  /// The access that a hook needs to operands that the host cannot read: none (it sees device addresses, and the device is not waited
  /// for); copies in host memory; or copies that are written back after the hook changed them. Other operands it accesses in place.
  enum class Sight : std::uint8_t { addresses, copies, copies_that_go_back };
  struct Call {
    const ProgramSet& programs;
    ProgramKind kind;
    std::size_t index;  // in the program
    const Operation& operation;
    std::span<const kernels::Tensor> inputs;
    std::span<const kernels::Tensor> outputs;
  };
  virtual ~OperationHook() = default;
  [[nodiscard]] virtual Sight sight() const { return Sight::copies; }
  virtual void before(const Call&) {}
  virtual void after(const Call&) {}
};

/// Runs a stage's programs. Bounded axes have as many entries as their table says (ProgramSet::counts) when an operation is run. The
/// constructor resolves operands to (region, offset); a run allocates nothing. Errors of kernels are prefixed with the operation's name. On
/// an asynchronous device, where a run only enqueues, a later failure is attributed to the operation that the device began last
/// (set_breadcrumb).
class Executor {
 public:
  /// Both must outlive the executor.
  Executor(const ProgramSet& programs, const MemoryPlan& plan);
  /// Runs a whole program. Throws Error(internal) if it has several segments.
  void run(ProgramKind kind, const kernels::ExecutionContext& context, const Bindings& bindings, OperationHook* hook = nullptr);
  /// Runs one segment; what it posts goes to `port`, which may be null if it posts nothing. All segments of a program are run in order,
  /// with the same bindings, each when the exchange that it awaits is complete.
  void run_segment(ProgramKind kind, std::size_t segment, const kernels::ExecutionContext& context, const Bindings& bindings,
                   OperationHook* hook, ExchangePort* port);
  [[nodiscard]] const std::vector<Segment>& segments(ProgramKind kind) const noexcept { return segments_[static_cast<std::size_t>(kind)]; }
  /// The bindings without regions that the program does not touch: the key by which executions with equal memory are recognised.
  [[nodiscard]] Bindings touched(ProgramKind kind, const Bindings& bindings) const;
  [[nodiscard]] bool touches(ProgramKind kind, Region region) const noexcept {
    return touched_[static_cast<std::size_t>(kind)][static_cast<std::size_t>(region)];
  }
  /// Where a value lies under these bindings (for hooks, captures and tests).
  [[nodiscard]] kernels::Tensor tensor(ValueId value, const Bindings& bindings) const;

 private:
  struct Operand {
    Place placement;
    kernels::Tensor prototype;
  };
  struct Step {
    const Operation* operation;
    std::uint32_t first_operand, inputs, outputs;
    bool bounded;
    ExchangeId posts = {};  // the received rows are then an operand behind the others, which hooks do not see
    [[nodiscard]] std::size_t operands() const noexcept { return inputs + outputs + (posts.valid() ? 1U : 0U); }
  };
  /// The end of the table of a count, and what it is called.
  struct Count {
    Place last;
    const std::string* name;
  };
  void add_step(ProgramKind kind, const Operation& operation);
  void resolve(kernels::Shape& shape, const Bindings& bindings) const;
  void post(const Step& step, ExchangePort* port) const;
  void run_step(const kernels::ExecutionContext& context, ProgramKind kind, std::size_t index, OperationHook* hook, ExchangePort* port,
                kernels::Scratch scratch);
  void run_shown(const kernels::ExecutionContext& context, const OperationHook::Call& call, OperationHook& hook, kernels::Scratch scratch);
  const ProgramSet& programs_;
  const MemoryPlan& plan_;
  std::array<std::vector<Step>, program_kind_count> steps_;
  std::array<std::vector<Segment>, program_kind_count> segments_;
  std::vector<Count> counts_;
  std::array<std::array<bool, region_count>, program_kind_count> touched_{};
  std::vector<Operand> operands_;
  std::vector<kernels::Tensor> scratchpad_;  // tensors of the operation at hand
};

}  // namespace millrace::runtime
