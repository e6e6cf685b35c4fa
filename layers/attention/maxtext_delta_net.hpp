#pragma once

#include <cstdint>
#include <string>

#include "layers/layer_spec.hpp"
#include "runtime/program/builder.hpp"

namespace millrace::layers {

/// MaxText's gated delta net: x [T, width] → [T, width] (layers/attention/gated_delta_net.hpp). Parameters under `<layer>.<module>`, inputs
/// first: in_proj_qkvz.kernel [width, 2·Hk·dk + 2·Hv·dv] and in_proj_ba.kernel [width, 2·Hv], both grouped by key head; conv1d.kernel,
/// stored [taps, 1, channels]; A_log and dt_bias [Hv]; norm.rms_norm.scale [dv]; out_proj.kernel [Hv·dv, width]. Labels: those of
/// delta_net(), and out_proj (result).
[[nodiscard]] runtime::ValueId maxtext_delta_net(runtime::ProgramBuilder& builder, runtime::ValueId x, std::int64_t width,
                                                 const DeltaNetSpec& spec, double norm_epsilon, const std::string& layer,
                                                 const std::string& module);

}  // namespace millrace::layers
