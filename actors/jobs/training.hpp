#pragma once

#include "actors/setup/run_settings.hpp"
#include "actors/setup/session.hpp"

namespace millrace::actors {

/// The training job, run by every process: resumes or begins the run, trains, evaluates, saves, samples, and ends. Collective;
/// the session must be connected. Throws Error for what this process cannot do; the caller must then use Session::fail().
void train(Session& session, const RunSettings& settings);

}  // namespace millrace::actors
