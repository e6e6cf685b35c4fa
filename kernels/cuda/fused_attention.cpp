#ifdef MILLRACE_CUDNN
#endif
