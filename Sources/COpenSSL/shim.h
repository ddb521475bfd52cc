#pragma once
#include <openssl/ssl.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ec.h>
#include <openssl/ecdsa.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <openssl/x509_vfy.h>
#include <openssl/pem.h>
#include <openssl/bio.h>
#include <openssl/ocsp.h>
#include <openssl/sha.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <openssl/crypto.h>

// Swift imports neither function-like macros nor variadic functions: each wrapper names one of them.
static inline int shim_SSL_set_tlsext_host_name(SSL *ssl, const char *name) {
    return (int)SSL_set_tlsext_host_name(ssl, (void *)name);
}
static inline int shim_SSL_CTX_set_min_proto_version(SSL_CTX *context, int version) {
    return (int)SSL_CTX_set_min_proto_version(context, version);
}
static inline long shim_SSL_CTX_set_mode(SSL_CTX *context, long mode) {
    return SSL_CTX_set_mode(context, mode);
}
static inline void shim_OPENSSL_free(void *pointer) { OPENSSL_free(pointer); }
static inline EVP_PKEY *shim_EVP_EC_gen_p256(void) { return EVP_EC_gen("P-256"); }
static inline EVP_PKEY *shim_EVP_EC_gen_p384(void) { return EVP_EC_gen("P-384"); }
static inline long shim_BIO_get_mem_data(BIO *bio, char **data) { return BIO_get_mem_data(bio, data); }

// The core that the calling thread runs on now, or -1. Declared here because Swift does not import GNU's own.
extern int sched_getcpu(void);
static inline int shim_current_core(void) { return sched_getcpu(); }
