#pragma once

#include "kernels/base/options.hpp"

namespace millrace::kernels {

/// The gate of an MLP whose operands are clamped (kernels/clamped_glu.hpp). GPT-OSS: limit 7, steepness 1.702, offset 1.
struct ClampedGluOptions {
  float limit = 7.0F;      // above 0: the gate is at most this, and up's size too
  float steepness = 1.0F;  // multiplies the gate within its sigmoid
  float offset = 0.0F;     // added to up

  bool operator==(const ClampedGluOptions&) const = default;

  static constexpr auto members() {
    return std::tuple(member("limit", &ClampedGluOptions::limit), member("steepness", &ClampedGluOptions::steepness),
                      member("offset", &ClampedGluOptions::offset));
  }
};

}  // namespace millrace::kernels
