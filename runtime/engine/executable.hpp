#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "runtime/engine/graph_cache.hpp"
#include "runtime/program/executor.hpp"
#include "runtime/program/memory_plan.hpp"
#include "runtime/program/program.hpp"

namespace millrace::runtime {

/// The form in which a device runs a stage: a set of programs with a place for every value. Here an interpreter enqueues operation by
/// operation; on a device with graphs, the enqueued work is captured and then launched with one call. A device with its own compiler would
/// replace the interpreter by compiled code, since callers use only these functions. Thread: the rank's worker.
class Executable {
 public:
  /// Plans the places. Throws Error(config) for an operation that the device has no kernel for.
  Executable(std::shared_ptr<const ProgramSet> programs, BackwardMode mode, const ParameterPlaces& places,
             const kernels::Processor& processor);
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;

  [[nodiscard]] const std::shared_ptr<const ProgramSet>& shared_programs() const noexcept { return programs_; }
  [[nodiscard]] const ProgramSet& programs() const noexcept { return *programs_; }
  [[nodiscard]] const MemoryPlan& plan() const noexcept { return plan_; }
  /// What it holds: bytes of one slot of a region, and of the workspace that its largest program needs.
  [[nodiscard]] std::size_t bytes(Region region) const noexcept { return plan_.region_bytes[static_cast<std::size_t>(region)]; }
  [[nodiscard]] std::size_t workspace_bytes() const noexcept;

  /// Enqueues a program on the context's device. A hook sees every operation, so with one nothing is captured.
  void run(ProgramKind kind, const kernels::ExecutionContext& context, const Bindings& bindings, OperationHook* hook = nullptr);
  /// Runs one of several segments, as Executor::run_segment; the only segment of a program as run().
  void run_segment(ProgramKind kind, std::size_t segment, const kernels::ExecutionContext& context, const Bindings& bindings,
                   OperationHook* hook, ExchangePort* port);
  [[nodiscard]] const std::vector<Segment>& segments(ProgramKind kind) const noexcept { return executor_.segments(kind); }
  [[nodiscard]] bool touches(ProgramKind kind, Region region) const noexcept { return executor_.touches(kind, region); }
  /// Where a value lies under these bindings.
  [[nodiscard]] kernels::Tensor tensor(ValueId value, const Bindings& bindings) const { return executor_.tensor(value, bindings); }

 private:
  std::shared_ptr<const ProgramSet> programs_;
  MemoryPlan plan_;
  Executor executor_;
  GraphCache graphs_;
};

}  // namespace millrace::runtime
