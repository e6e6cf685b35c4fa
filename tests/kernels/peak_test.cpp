#include "kernels/peak.hpp"

#include <gtest/gtest.h>

namespace millrace::kernels {
namespace {

double peak(const char* name, DType dtype = DType::bf16, bool tf32 = false) {
  DeviceDescription device;
  device.name = name;
  return device_peak_flops(device, dtype, tf32);
}

TEST(DevicePeakFlops, KnowsDataSheetsByName) {
  EXPECT_EQ(peak("NVIDIA H200"), 989e12);
  EXPECT_EQ(peak("NVIDIA H100 80GB HBM3"), 989e12);
  EXPECT_EQ(peak("NVIDIA H100 PCIe"), 756e12);
  EXPECT_EQ(peak("NVIDIA A100-SXM4-80GB"), 312e12);
  EXPECT_EQ(peak("NVIDIA A100 80GB PCIe"), 312e12);
  EXPECT_EQ(peak("NVIDIA L40S"), 362e12);
  EXPECT_EQ(peak("NVIDIA B200"), 2250e12);
}

TEST(DevicePeakFlops, OfTheDtypeThatIsComputedIn) {
  EXPECT_EQ(peak("NVIDIA H200", DType::bf16, true), 989e12);
  EXPECT_EQ(peak("NVIDIA H200", DType::f32, true), 494.7e12);
  EXPECT_EQ(peak("NVIDIA H200", DType::f32), 66.9e12);
  EXPECT_EQ(peak("NVIDIA H100 PCIe", DType::f32), 51.2e12);
  EXPECT_EQ(peak("NVIDIA H200", DType::i32), 0);
}

TEST(DevicePeakFlops, IsUnknownForOthers) {
  for (const char* name :
       {"", "emulated", "NVIDIA L40", "NVIDIA GH200 480GB", "NVIDIA H100 NVL", "NVIDIA H200 MIG 1g.18gb", "NVIDIA GB200"})
    EXPECT_EQ(peak(name), 0) << name;
}

}  // namespace
}  // namespace millrace::kernels
