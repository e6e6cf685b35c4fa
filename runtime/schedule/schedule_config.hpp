#pragma once

#include <array>

namespace millrace::runtime {

/// The allowed values of pipeline.schedule, in the order of the documentation; make_schedule() accepts exactly these.
inline constexpr std::array schedule_choices{
    "gpipe", "1f1b",           "looped-bfs", "interleaved", "circular", "zb-h1",      "zb-h2",
    "zb-v",  "interleaved-zb", "v-half",     "v-min",       "dualpipe", "dualpipe-v", "auto",
};

}  // namespace millrace::runtime
