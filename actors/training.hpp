#pragma once

#include "actors/run_settings.hpp"
#include "actors/session.hpp"

namespace millrace::actors {

/// SIGUSR1 and SIGTERM ask for a save and an orderly end at the next step boundary, SIGUSR2 for a profile; mpirun hands them to every
/// process. First thing in main: what comes before train() is kept until then.
void note_signals();

/// The main job, on every process of it: resumes or begins the run, trains, evaluates, saves, samples, ends in order. Collective; the
/// session is connected. Throws Error for what this process cannot do; Session::fail is then the way out.
void train(Session& session, const RunSettings& settings);

}  // namespace millrace::actors
