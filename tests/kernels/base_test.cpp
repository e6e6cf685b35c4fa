#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>
#include <utility>

#include "kernels/base/cpu_features.hpp"
#include "kernels/base/device.hpp"
#include "kernels/base/dot_product_rate.hpp"
#include "kernels/cpu/loops_isa.hpp"
#include "tests/kernels/fixture.hpp"

namespace millrace::kernels {
namespace {

TEST(Buffer, IsZeroedAlignedAndMoves) {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{4097}, std::size_t{9} << 20}) {
    Buffer buffer(bytes);
    EXPECT_EQ(buffer.size(), bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % 4096, 0U);
    for (std::size_t i = 0; i < bytes; i += 997) EXPECT_EQ(buffer.data()[i], std::byte{0});
    buffer.data()[bytes - 1] = std::byte{42};
    std::byte* const memory = buffer.data();
    Buffer moved(std::move(buffer));
    EXPECT_EQ(moved.data(), memory);
    EXPECT_EQ(buffer.data(), nullptr);  // NOLINT: what a move leaves behind is promised
    buffer = std::move(moved);
    EXPECT_EQ(buffer.data()[bytes - 1], std::byte{42});
  }
  EXPECT_EQ(Buffer(0).data(), nullptr);
}

TEST(Buffer, SaysHowMuchTheSystemRefused) {
  const std::size_t bytes = std::size_t{1} << 60;
  try {
    Buffer buffer(bytes);
    FAIL() << "an exbibyte was granted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::memory);
    EXPECT_NE(std::string(error.what()).find(std::to_string(bytes)), std::string::npos) << error.what();
  }
}

TEST(Buffer, HasDeviceAndPinnedMemoryWhereThereIsADevice) {
  constexpr Device device{DeviceKind::cuda, 0};
  for (const MemorySpace space : {MemorySpace::device, MemorySpace::pinned_host}) {
    if (!why_no_cuda().empty()) {
      EXPECT_EQ(testing::thrown([&] { Buffer buffer(16, device, space); }), static_cast<int>(ExitCode::config));
      continue;
    }
    Buffer buffer(70'000, device, space);
    EXPECT_EQ(buffer.size(), 70'000U);
    EXPECT_EQ(buffer.space(), space);
    const auto context = make_context(device);
    const Buffer seen(70'000, device, MemorySpace::pinned_host);
    std::fill_n(seen.data(), seen.size(), std::byte{0x55});
    context->copy(StreamKind::copy_out, seen.data(), buffer.data(), seen.size());
    context->drain();
    for (const std::byte byte : seen.bytes()) ASSERT_EQ(byte, std::byte{0});
    std::byte* const memory = buffer.data();
    const Buffer moved(std::move(buffer));
    EXPECT_EQ(moved.data(), memory);
    EXPECT_EQ(moved.space(), space);
  }
  if (why_no_cuda().empty()) {
    EXPECT_EQ(testing::thrown([&] { Buffer huge(std::size_t{1} << 60, device, MemorySpace::device); }), static_cast<int>(ExitCode::memory));
  }
  EXPECT_EQ(testing::thrown([] { Buffer buffer(16, {}, MemorySpace::device); }), static_cast<int>(ExitCode::internal));
}

TEST(Device, IsReadAndPrinted) {
  EXPECT_EQ(parse_device("cpu"), Device{});
  EXPECT_EQ(to_string(Device{}), "cpu");
  EXPECT_EQ(to_string(Device{DeviceKind::cuda, 3}), "cuda:3");
  const bool has_device = why_no_cuda().empty();
  for (const char* text : {"cuda", "cuda:0"})
    EXPECT_EQ(testing::thrown([&] {
                EXPECT_EQ(parse_device(text), (Device{DeviceKind::cuda, 0}));
              }),
              has_device ? -1 : static_cast<int>(ExitCode::config))
        << text;
  for (const char* text : {"", "gpu", "cuda:", "cuda:x", "cuda0", "cuda:-1", "cuda:1000"})
    EXPECT_EQ(testing::thrown([&] { (void)parse_device(text); }), static_cast<int>(ExitCode::config)) << text;
}

TEST(CpuFeatures, DescribesWhatItFound) {
  const auto& features = cpu_features();
  EXPECT_NE(describe(features).find(to_string(features.isa)), std::string::npos);
  EXPECT_NE(describe(features).find(features.model), std::string::npos);
  EXPECT_TRUE(!features.fast_bf16() || features.isa == Isa::avx512);
  EXPECT_EQ(features.arithmetic().find("bf16") != std::string::npos, features.fast_bf16());
}

std::string refused(const CpuFeatures& features, const char* level) {
  try {
    (void)lowered(features, level);
    return "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::config);
    return error.what();
  }
}

TEST(CpuFeatures, LoseBf16InstructionsAtANamedLevel) {
  const CpuFeatures whole{.isa = Isa::avx512, .avx512_bf16 = true, .amx_bf16 = true, .slow_bf16 = true, .model = "a model"};
  for (const Isa isa : {Isa::baseline, Isa::avx2, Isa::avx512}) {
    const CpuFeatures found = lowered(whole, to_string(isa));
    EXPECT_EQ(found.isa, isa);
    EXPECT_EQ(found.arithmetic(), to_string(isa));
    EXPECT_EQ(describe(found), to_string(isa) + " (no bf16 instructions: bf16 matmuls run in fp32), a model");
  }
}

TEST(CpuFeatures, RefuseALevelThatIsNone) {
  const CpuFeatures whole{.isa = Isa::avx512, .model = "a model"};
  EXPECT_EQ(refused(whole, "avx3"),
            "[kernels.cpu_features] environment variable MILLRACE_ISA is \"avx3\", expected baseline, avx2, avx512, amx_model; did you "
            "mean avx2?");
  EXPECT_NE(refused(whole, "AVX512").find("\"AVX512\", expected baseline, avx2, avx512, amx_model; did you mean avx512?"),
            std::string::npos);
  EXPECT_NE(refused(whole, "basline").find("did you mean baseline?"), std::string::npos);
  EXPECT_NE(refused(whole, "").find("is \"\", expected baseline, avx2, avx512, amx_model"), std::string::npos);
}

TEST(CpuFeatures, ModelTheTilesOfAmxOnAnyProcessor) {
  const CpuFeatures modelled = lowered({.isa = Isa::avx2, .model = "a model"}, "amx_model");
  EXPECT_EQ(modelled.isa, Isa::avx2);
  EXPECT_TRUE(modelled.amx_bf16 && modelled.models_tiles && modelled.fast_bf16());
  EXPECT_EQ(modelled.arithmetic(), "amx_bf16");
  EXPECT_EQ(describe(modelled), "avx2 (with a model of amx_bf16 in C++, which is slow), a model");
}

TEST(CpuFeatures, RefuseALevelThatTheProcessorLacks) {
  const CpuFeatures lesser{.isa = Isa::avx2, .model = "a model"};
  EXPECT_EQ(lowered(lesser, "avx2").isa, Isa::avx2);
  EXPECT_EQ(refused(lesser, "avx512"),
            "[kernels.cpu_features] environment variable MILLRACE_ISA is avx512, but this processor (a model) has avx2 at most");
}

// The instruction set that the other tests of this process use.
TEST(CpuFeatures, TheLevelThatIsAskedForIsTheOneThatRuns) {
  const char* const level = std::getenv("MILLRACE_ISA");
  const Isa isa = cpu_features().isa;
  if (level == nullptr)
    EXPECT_EQ(describe(cpu_features()), describe(detected_cpu_features()));
  else
    EXPECT_EQ(cpu_features().arithmetic(), level);
  EXPECT_EQ(cpu::pick_loops_isa()(), isa);
}

TEST(CpuFeatures, ABf16DotProductIsSlowOnlyWhereItIsTheBestThereIs) {
  if (!cpu_features().avx512_bf16) GTEST_SKIP() << "this processor has no bf16 dot product";
  EXPECT_GT(bf16_dot_product_rate(), 0);  // its value depends on how busy the machine is
  EXPECT_FALSE(cpu_features().slow_bf16 && cpu_features().amx_bf16);
  EXPECT_FALSE(cpu_features().slow_bf16 && cpu_features().fast_bf16());
}

TEST(BFloat16, RoundsToNearestEven) {
  EXPECT_EQ(to_bfloat16(1.0F).bits, 0x3f80);
  EXPECT_EQ(to_bfloat16(1.0F + 0x1p-8F).bits, 0x3f80);            // a tie goes to even
  EXPECT_EQ(to_bfloat16(1.0F + 0x1p-7F + 0x1p-8F).bits, 0x3f82);  // and so does this one
  EXPECT_EQ(to_bfloat16(1.0F + 0x1p-8F + 0x1p-20F).bits, 0x3f81);
  EXPECT_TRUE(std::isnan(to_float(to_bfloat16(std::numeric_limits<float>::quiet_NaN()))));
  EXPECT_TRUE(std::isinf(to_float(to_bfloat16(std::numeric_limits<float>::max()))));
}

}  // namespace
}  // namespace millrace::kernels
