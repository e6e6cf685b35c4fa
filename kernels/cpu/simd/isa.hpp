#pragma once

#include "kernels/base/cpu_features.hpp"

/// A source listed with millrace_cpu_kernel() in CMake is compiled once for each instruction set, with MILLRACE_ISA set to the namespace
/// `baseline`, `avx2` or `avx512`. It defines its loops in `namespace millrace::kernels::cpu::MILLRACE_ISA`; its header declares them with
///
///   MILLRACE_CPU_KERNEL(adamw_range, void(const AdamwRange& range, std::int64_t begin, std::int64_t end));
///
/// at namespace millrace::kernels::cpu, and the dispatching code, compiled once for any processor, calls `pick_adamw_range()(range, begin,
/// end)`.
///
/// Such a source keeps to plain loops over pointers: checks, error messages, containers and threads stay outside. What it takes from
/// headers must be inlined always (`static inline` with always_inline, as in vector.hpp): an out-of-line copy of an inline function made
/// here could be the one that the linker keeps for everybody, and would not run on lesser processors.
#define MILLRACE_CPU_KERNEL(name, ...)                   \
  using name##_signature = __VA_ARGS__;                  \
  namespace baseline {                                   \
  name##_signature name;                                 \
  }                                                      \
  namespace avx2 {                                       \
  name##_signature name;                                 \
  }                                                      \
  namespace avx512 {                                     \
  name##_signature name;                                 \
  }                                                      \
  [[nodiscard]] inline name##_signature* pick_##name() { \
    switch (::millrace::kernels::cpu_features().isa) {   \
      case ::millrace::kernels::Isa::avx512:             \
        return &avx512::name;                            \
      case ::millrace::kernels::Isa::avx2:               \
        return &avx2::name;                              \
      default:                                           \
        return &baseline::name;                          \
    }                                                    \
  }                                                      \
  static_assert(true, "takes the semicolon")
