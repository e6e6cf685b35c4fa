#pragma once

#include "actors/setup/run_settings.hpp"
#include "actors/setup/session.hpp"

namespace millrace::actors {

/// The main job, on every process of it: resumes or begins the run, trains, evaluates, saves, samples, ends in order. Collective; the
/// session is connected. Throws Error for what this process cannot do; Session::fail is then the way out.
void train(Session& session, const RunSettings& settings);

}  // namespace millrace::actors
