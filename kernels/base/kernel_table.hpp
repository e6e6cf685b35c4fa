#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <type_traits>

#include "kernels/base/backend.hpp"
#include "kernels/base/check.hpp"
#include "kernels/base/execution_context.hpp"

/// The kernel tables: one column per backend, one row per kernel. The header of an operation (kernels/rms_norm.hpp) declares the functions
/// that everybody calls, and in namespace `table` a row for each of them. The function checks its operands once and calls through the row;
/// a backend fills its column from its own folder, with an InTable at namespace scope:
///
///   const InTable forward{Backend::cuda, table::rms_norm_forward, rms_norm_forward};
///
/// The tables are complete before main() and constant from there on. A call costs an indexed load and an indirect call.
namespace millrace::kernels {

/// The part of a row that the planner needs: which backends have the kernel.
class KernelRow {
 public:
  [[nodiscard]] constexpr const char* name() const noexcept { return name_; }
  [[nodiscard]] bool has(Backend backend) const noexcept { return functions_[static_cast<std::size_t>(backend)] != nullptr; }
  KernelRow(const KernelRow&) = delete;
  KernelRow& operator=(const KernelRow&) = delete;

 protected:
  using AnyFunction = void (*)();
  explicit constexpr KernelRow(const char* name) noexcept : name_(name) {}
  ~KernelRow() = default;
  [[noreturn]] void fail_missing(Backend backend) const {
    fail(ExitCode::config, "kernels", "backend {} has no kernel for {}", to_string(backend), name_);
  }
  std::array<AnyFunction, backend_count> functions_{};

 private:
  const char* name_;
};

template <class Signature>
class Kernel;

/// The row of a kernel with this signature.
template <class Result, class... Parameters>
class Kernel<Result(Parameters...)> final : public KernelRow {
 public:
  using Function = Result (*)(Parameters...);
  explicit constexpr Kernel(const char* name) noexcept : KernelRow(name) {}

  /// The backend's function. Throws Error(config), "backend cuda has no kernel for top_k", if it has none.
  [[nodiscard]] Function on(Backend backend) const {
    const auto function = functions_[static_cast<std::size_t>(backend)];
    if (function == nullptr) [[unlikely]]
      fail_missing(backend);
    return reinterpret_cast<Function>(function);
  }
  /// Calls the function of the context's backend with the context and these arguments.
  template <class... Arguments>
  Result operator()(const ExecutionContext& context, const Arguments&... arguments) const {
    return on(context.backend())(context, arguments...);
  }
  void set(Backend backend, Function function) noexcept {
    functions_[static_cast<std::size_t>(backend)] = reinterpret_cast<AnyFunction>(function);
  }
};

/// Registers a function in a backend's table. Only at namespace scope.
struct InTable {
  template <class Signature>
  InTable(Backend backend, Kernel<Signature>& row, std::type_identity_t<Signature>* function) noexcept {
    row.set(backend, function);
  }
};

/// Adapts a function that takes only operands, such as the reference's plain loops, to a kernel, which also gets a context.
template <auto function>
struct WithoutContext;
template <class Result, class... Parameters, Result (*function)(Parameters...)>
struct WithoutContext<function> {
  static Result call(const ExecutionContext&, Parameters... parameters) { return function(parameters...); }
};
template <auto function>
inline constexpr auto without_context = &WithoutContext<function>::call;

/// The scratch to plan for a kernel on this processor: the largest that any backend of the device needs, since a run on a CPU may
/// select the reference. A backend that has registered no size needs none.
template <class Signature, class... Arguments>
[[nodiscard]] std::size_t planned_scratch(const Kernel<Signature>& sizes, const Processor& processor, const Arguments&... arguments) {
  std::size_t bytes = 0;
  for (const Backend backend : all_backends)
    if (computes_on(backend, processor.device.kind) && sizes.has(backend))
      bytes = std::max(bytes, sizes.on(backend)(arguments..., processor));
  return bytes;
}

/// Scratch that the context's backend needs for one call.
template <class Signature, class... Arguments>
[[nodiscard]] std::size_t needed_scratch(const Kernel<Signature>& sizes, const ExecutionContext& context, const Arguments&... arguments) {
  return sizes.has(context.backend()) ? sizes.on(context.backend())(arguments..., context.processor()) : 0;
}

}  // namespace millrace::kernels
