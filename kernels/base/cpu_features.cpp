#include "kernels/base/cpu_features.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/base/check.hpp"
#include "kernels/base/dot_product_rate.hpp"
#include "kernels/base/nearest.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace millrace::kernels {
namespace {

constexpr const char* component = "kernels.cpu_features";

#if defined(__x86_64__)
Isa detect_isa() {
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !__builtin_cpu_supports("bmi2")) return Isa::baseline;
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return avx512 ? Isa::avx512 : Isa::avx2;
}

std::string read_model() {
  std::array<unsigned, 13> words{};
  for (unsigned leaf = 0; leaf < 3; ++leaf)
    if (!__get_cpuid(0x80000002U + leaf, &words[4 * leaf], &words[4 * leaf + 1], &words[4 * leaf + 2], &words[4 * leaf + 3]))
      return "unknown processor";
  std::array<char, sizeof words> text{};
  std::memcpy(text.data(), words.data(), sizeof words);
  const std::string_view name(text.data());
  const auto first = name.find_first_not_of(' ');
  return first == std::string_view::npos ? "unknown processor" : std::string(name.substr(first, name.find_last_not_of(' ') - first + 1));
}

/// Asks the system for the tile registers, which a process has only on request. False if it does not know them or refuses.
bool may_use_tiles() {
#if defined(__linux__)
  constexpr long request_permission = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
#else
  return false;
#endif
}

CpuFeatures detect() {
  CpuFeatures features;
  features.isa = detect_isa();
  features.model = read_model();
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (features.isa == Isa::avx512) {
    if (__get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx)) features.avx512_bf16 = (eax >> 5 & 1U) != 0;
    if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx))
      features.amx_bf16 = (edx >> 22 & 1U) != 0 && (edx >> 24 & 1U) != 0 && may_use_tiles();
  }
  // AMX tiles are a separate unit, so slow AVX-512 bf16 instructions beside them do not matter.
  if (features.avx512_bf16 && !features.amx_bf16) features.slow_bf16 = bf16_dot_product_rate() < 0.75;
  return features;
}
#else
CpuFeatures detect() { return {.model = "unknown processor"}; }
#endif

std::string lowercase(std::string text) {
  for (char& letter : text)
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  return text;
}

}  // namespace

std::string to_string(Isa isa) {
  constexpr std::array<const char*, 3> names{"baseline", "avx2", "avx512"};
  return names[static_cast<std::size_t>(isa)];
}

const CpuFeatures& detected_cpu_features() {
  static const CpuFeatures features = detect();
  return features;
}

CpuFeatures lowered(CpuFeatures features, const std::string& level) {
  std::vector<std::string> names;
  for (const Isa isa : {Isa::baseline, Isa::avx2, Isa::avx512}) names.push_back(to_string(isa));
  names.emplace_back("amx_model");
  const auto name = std::find(names.begin(), names.end(), level);
  MILLRACE_CHECK(name != names.end(), ExitCode::config, component, "environment variable MILLRACE_ISA is \"{}\", expected {}{}", level,
                 fmt::join(names, ", "), did_you_mean(lowercase(level), names));
  if (level == names.back()) return {.isa = features.isa, .amx_bf16 = true, .models_tiles = true, .model = std::move(features.model)};
  const auto isa = static_cast<Isa>(name - names.begin());
  MILLRACE_CHECK(isa <= features.isa, ExitCode::config, component,
                 "environment variable MILLRACE_ISA is {}, but this processor ({}) has {} at most", level, features.model,
                 to_string(features.isa));
  return {.isa = isa, .model = std::move(features.model)};
}

const CpuFeatures& cpu_features() {
  static const CpuFeatures features = [] {
    const char* level = std::getenv("MILLRACE_ISA");
    return level == nullptr ? detected_cpu_features() : lowered(detected_cpu_features(), level);
  }();
  return features;
}

std::string CpuFeatures::arithmetic() const {
  if (!fast_bf16()) return to_string(isa);
  return amx_bf16 ? "amx_bf16" : "avx512_bf16";
}

DType matmul_compute_dtype(DType dtype) { return dtype == DType::bf16 && cpu_features().fast_bf16() ? DType::bf16 : DType::f32; }

std::string describe(const CpuFeatures& features) {
  const char* bf16 = features.models_tiles  ? "with a model of amx_bf16 in C++, which is slow"
                     : features.amx_bf16    ? "with amx_bf16"
                     : features.slow_bf16   ? "with avx512_bf16 at half rate: bf16 matmuls run in fp32"
                     : features.avx512_bf16 ? "with avx512_bf16"
                                            : "no bf16 instructions: bf16 matmuls run in fp32";
  return fmt::format("{} ({}), {}", to_string(features.isa), bf16, features.model);
}

}  // namespace millrace::kernels
