//! The driver: runs turns over spokes and providers with tokio.
